"""What stands in front of the modules in the file of the recorder.

It has to say what it needs under any Python 3, so that it is written for the oldest.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any, Dict  # noqa: UP035

_OLDEST = (3, 9)
if sys.version_info < _OLDEST:
    sys.exit("this recorder needs Python {}.{} or newer".format(*_OLDEST))
_READ_ELSEWHERE = (
    "{} only records. Copy the folder to where troubleshooter_nb is installed, and open it there: "
    "troubleshooter_nb.open_dump(folder)"
)


class _Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the modules of this file in it."""

    def __init__(self, package: str, file: str, sources: Dict[str, str]) -> None:  # noqa: UP006
        self.package, self.file, self.sources = package, file, sources

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith(self.package + "."):
            return None
        if self._name(fullname) not in self.sources:
            raise ModuleNotFoundError(_READ_ELSEWHERE.format(self.package), name=fullname)
        is_package = self.is_package(fullname)
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def _name(self, fullname: str) -> str:
        return fullname[len(self.package) + 1 :]

    def is_package(self, fullname: str) -> bool:
        inside = self._name(fullname) + "."
        return any(name.startswith(inside) for name in self.sources)

    def get_source(self, fullname: str) -> str:
        return self.sources[self._name(fullname)]

    def exec_module(self, module: ModuleType) -> None:
        name = self._name(module.__name__).replace(".", "/")
        # As if this file were a folder: tracebacks show the lines all the same.
        module.__file__ = "{}/{}.py".format(self.file, name)  # noqa: UP032
        source = self.get_source(module.__name__)
        exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)


def _install(sources: Dict[str, str]) -> Any:  # noqa: UP006
    package = "tnb_record" if __name__ == "__main__" else __name__
    this: Any = sys.modules[__name__]
    this.__path__ = []
    sys.modules[package] = this
    sys.meta_path.insert(0, _Modules(package, __file__, sources))
    return importlib.import_module(package + ".recorder_file.front")
