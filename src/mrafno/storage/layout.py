"""File names inside a run directory. No other module spells them.

::

    ledger.jsonl                    events, one per line
    ledger.copy.jsonl               the same lines again, to restore damaged ones from
    lock                            the process that writes
    arrays/inputs.npy               all inputs of a task that is not built in, unless they are in a file of their own
    arrays/inputs-checksums.npy     a checksum of each input that was given
    arrays/inputs-available.npy     which rows of a table have an output on which level
    arrays/candidates-000000.npy    candidates that were added to the pool
    arrays/000000.pack              inputs and outputs of queries, one after another; the ledger says where each is
    arrays/q000012-input.npy        the input of a query, in runs of versions before 0.3
    arrays/q000012-output.npy       its output
    attempt                         the query that the driver simulates itself now
    spool/                          results of workers that are not yet in the ledger
    inbox/                          answers of other processes that are not yet in the ledger
    inbox/refused/                  answers that came too late, such as a second output of one query
    surrogate/surrogate.json        the checkpoint that predicts: settings and checksums
    surrogate/weights-*.safetensors   and its tensors
    surrogate/last/                 the last checkpoint, if an earlier one predicts because the last fit made it worse
    scoring/                        a large pool on the scoring grid, which is made again if it is missing
    task.source.json                how the run was started from the command line
    asked/                          inputs handed out by ``mrafno ask``
    status.json                     what the driver is doing, its goals, its CPU and memory
    fits.jsonl                      learning curves, a line for each fit
    notes.json                      a person's note and tags
    control.json                    a request to the driver: to pause, or to stop
    damaged/                        what ``mrafno repair`` took out of use, one folder per repair

The status, the curves, the notes and the requests are for whoever looks at a run: no result depends on them.
"""

from pathlib import Path

LEDGER = "ledger.jsonl"
LEDGER_COPY = "ledger.copy.jsonl"
LOCK = "lock"
ARRAYS = "arrays"
SPOOL = "spool"
INBOX = "inbox"
CHECKPOINT = "surrogate"
TASK_SOURCE = "task.source.json"
ASKED = "asked"
SCORING = "scoring"
ATTEMPT = "attempt"
STATUS = "status.json"
FITS = "fits.jsonl"
NOTES = "notes.json"
CONTROL = "control.json"
DAMAGED = "damaged"

#: Inside the checkpoint's folder: the description, which changes with every save, and a pattern of the tensor files.
DESCRIPTION = "surrogate.json"
WEIGHTS = "weights-*.safetensors"

#: Inside the checkpoint's folder: the last checkpoint, if it is another one.
LAST = "last"

#: Inside the inbox.
REFUSED = "refused"

#: Name of the array of all inputs.
INPUTS = "inputs"
#: Names of the arrays of their checksums, and of which of them can be simulated on which level.
CHECKSUMS, AVAILABLE = "inputs-checksums", "inputs-available"


def candidates_array(number: int) -> str:
    """Name of the array with candidates that were added; they are counted from 0."""
    return f"candidates-{number:06d}"


def input_array(query: str) -> str:
    """Name of the array with a query's input."""
    return f"{query}-input"


def output_array(query: str) -> str:
    """Name of the array with a query's output."""
    return f"{query}-output"


def pack_file(number: int) -> str:
    """Path of the pack with this number in a run's folder."""
    return f"{ARRAYS}/{number:06d}.pack"


def weights_file(sha256: str) -> str:
    """Name of the tensor file with this checksum."""
    return WEIGHTS.replace("*", sha256[:16])


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / LEDGER).exists()


def checkpoints(folder: Path) -> list[Path]:
    """Folders inside a run's folder that hold a checkpoint, or a part of one."""
    inside = [folder / CHECKPOINT, *(folder / CHECKPOINT).glob("*/")]
    return [place for place in inside if (place / DESCRIPTION).exists() or any(place.glob(WEIGHTS))]
