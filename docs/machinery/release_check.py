"""Installs an sdist on the oldest and the newest supported Python and runs it: ``release_check.py FOLDER``.

The supported versions are those of the classifiers in ``pyproject.toml``. Those that are found here are named; it is
an error if none is.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def supported() -> list[str]:
    """Supported versions of Python, from the oldest: 3.11 and so on."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [match[1] for one in classifiers if (match := re.fullmatch(r".* Python :: (3\.\d+)", one))]
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, of pyenv, or this one."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    roots = [os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))]
    candidates = [*(str(path) for root in roots for path in Path(root).glob(f"versions/{version}.*/bin/python"))]
    candidates += [path] if (path := shutil.which(f"python{version}")) else []
    for path in candidates:
        if Path(path).exists() and _version(path) == version:
            return path
    return sys.executable if own == version else None


def _version(path: str) -> str:
    code = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def install(sdist: Path, version: str, python: str) -> None:
    """Install into an environment of its own, and run."""
    folder = sdist.parent / f"python{version}"
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    limits = ["--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, *limits, sdist], check=True)
    for arguments in (["--version"], ["tasks", "burgers"]):
        subprocess.run([folder / "bin" / "mrafno", *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    print(f"Python {version}: installed from {sdist.name}, runs")
    shutil.rmtree(folder)


def main() -> None:
    """Check the sdist in the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    (sdist,) = parser.parse_args().folder.resolve().glob("*.tar.gz")
    versions = supported()
    known = {version: path for version in versions if (path := interpreter(version))}
    print(f"supported: {', '.join(versions)}; found here: {', '.join(known) or 'none'}")
    if not known:
        raise SystemExit("No supported Python was found.")
    for version in dict.fromkeys((min(known, key=versions.index), max(known, key=versions.index))):
        install(sdist, version, known[version])


if __name__ == "__main__":
    main()
