"""The table of readers: who reads each state, made from what the state has to know.

Prose, the open block and the open call outlive other states; the machine has them, and they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dsv4._parse.blocks import BlockReader, Invoke, InvokeOpening, ParameterOpening
from dsv4._parse.machine import Machine, ParserState, StateReader
from dsv4._parse.markup_in_prose import (
    AfterBlockReader,
    FencedBlockReader,
    HaltedReader,
    InventedTurnReader,
    LostCallReader,
    OrphanClosersReader,
    PossibleTurnReader,
    StrayParameterReader,
)
from dsv4._parse.nested_parameters import NestedParametersReader
from dsv4._parse.plain_calls import NativeCallsReader, PlainCallReader
from dsv4._parse.tag import Tag
from dsv4._parse.text_in_blocks import (
    BrokenTagReader,
    JunkReader,
    NamedCallReader,
    RemarkReader,
)
from dsv4._parse.value_readers import (
    JsonBody,
    JsonCallList,
    JsonValueReader,
    ParameterValue,
    TextValueReader,
    ValueBuilder,
)


def _block(machine: Machine, *tag: Tag) -> StateReader:
    if tag:
        machine.block = BlockReader(machine, *tag)
    assert machine.block is not None
    return machine.block


def _invoke(machine: Machine, *opening: InvokeOpening) -> StateReader:
    if opening:
        machine.invoke = Invoke(machine, *opening)
    assert machine.invoke is not None
    return machine.invoke


def _value(
    machine: Machine, known: ValueBuilder | ParameterOpening | Invoke | None
) -> ValueBuilder:
    """A value that is read again as something else, a parameter, a call's body, or calls."""
    if known is None:
        return JsonCallList(machine)
    if isinstance(known, ParameterOpening):
        return ParameterValue(known)
    return JsonBody(known) if isinstance(known, Invoke) else known


STATE_READERS: Mapping[ParserState, Callable[..., StateReader]] = {
    ParserState.PROSE: lambda machine, *known: machine.prose.resume(*known),
    ParserState.ORPHANS: OrphanClosersReader,
    ParserState.STRAY: lambda machine, tag: StrayParameterReader(machine, machine.prose, tag),
    ParserState.LOST: lambda machine, tag: LostCallReader(machine, machine.prose, tag),
    ParserState.FENCED: lambda machine, tag: FencedBlockReader(machine, machine.prose, tag),
    ParserState.AFTER: lambda machine, *known: AfterBlockReader(machine, machine.prose, *known),
    ParserState.BLOCK: _block,
    ParserState.NAMED: NamedCallReader,
    ParserState.JUNK: JunkReader,
    ParserState.BROKEN: BrokenTagReader,
    ParserState.INVOKE: _invoke,
    ParserState.REMARK: RemarkReader,
    ParserState.NESTED: NestedParametersReader,
    ParserState.VALUE: lambda machine, known: TextValueReader(machine, _value(machine, known)),
    ParserState.JSON: lambda machine, known: JsonValueReader(machine, _value(machine, known)),
    ParserState.PLAIN: lambda machine, *tags: PlainCallReader(machine, machine.prose, *tags),
    ParserState.NATIVE: lambda machine, tag: NativeCallsReader(machine, machine.prose, tag),
    ParserState.ROLE: lambda machine, tag: PossibleTurnReader(machine, machine.prose, tag),
    ParserState.INVENTED: InventedTurnReader,
    ParserState.HALTED: HaltedReader,
}
