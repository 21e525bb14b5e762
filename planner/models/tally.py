"""A running count of a model's tensors: families add matrices, vectors and tables; the tally makes `TensorGroup`s of them."""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.spec import TensorClass, TensorGroup


@dataclass(slots=True)
class _Running:
    tensor_class: TensorClass
    tower: str
    quantisable: bool
    parameters: int = 0
    matmul_parameters: int = 0


class Tally:
    """Counts by group name, in the order in which the groups first appear."""

    def __init__(self) -> None:
        self._groups: dict[str, _Running] = {}

    def add(
        self,
        name: str,
        tensor_class: TensorClass,
        parameters: int,
        *,
        times: int = 1,
        matmul: int | None = None,
        quantisable: bool = False,
        tower: str = "text",
    ) -> None:
        """Add `times` tensors of `parameters` numbers; `matmul` of them (default none) multiply each token."""
        if parameters * times == 0 and not matmul:
            return
        group = self._groups.setdefault(name, _Running(tensor_class, tower, quantisable))
        group.parameters += parameters * times
        group.matmul_parameters += (matmul or 0) * times

    def linear(
        self,
        name: str,
        tensor_class: TensorClass,
        inputs: int,
        outputs: int,
        *,
        bias: bool = False,
        times: int = 1,
        quantisable: bool = True,
        tower: str = "text",
    ) -> None:
        """Add `times` matrices of inputs x outputs, and their bias vectors to the group `<first word of name>.bias`."""
        self.add(
            name,
            tensor_class,
            inputs * outputs,
            times=times,
            matmul=inputs * outputs,
            quantisable=quantisable,
            tower=tower,
        )
        if bias:
            self.add(f"{name.rsplit('.', 1)[0]}.bias", tensor_class, outputs, times=times, tower=tower)

    def norm(self, name: str, width: int, *, times: int = 1, bias: bool = False, tower: str = "text") -> None:
        """Add `times` normalisation layers over `width` numbers, with or without a bias."""
        self.add(name, TensorClass.NORM, width * (2 if bias else 1), times=times, tower=tower)

    def table(self, name: str, rows: int, width: int, *, tower: str = "text") -> None:
        """Add a table that is looked up, not multiplied."""
        self.add(name, TensorClass.EMBEDDING, rows * width, tower=tower)

    def tied_head(self, name: str, vocabulary: int, width: int, *, tower: str = "text") -> None:
        """Add an output projection that shares the embedding's numbers: nothing stored, but multiplied."""
        self.add(name, TensorClass.HEAD, 0, matmul=vocabulary * width, tower=tower)

    def groups(self) -> tuple[TensorGroup, ...]:
        """Return the groups counted so far."""
        return tuple(
            TensorGroup(
                name=name,
                tensor_class=g.tensor_class,
                parameters=g.parameters,
                matmul_parameters=g.matmul_parameters,
                quantisable=g.quantisable,
                tower=g.tower,
            )
            for name, g in self._groups.items()
        )

    def total(self) -> int:
        """Return the number of parameters counted so far."""
        return sum(g.parameters for g in self._groups.values())
