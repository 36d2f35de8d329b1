"""The publication's tables and figures, made anew."""
