"""Tables of the runner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.run import Clean, Result


def table(results: Iterable[Result], *, guard_only: bool = False) -> str:
    """One line for each fault and host."""
    return "\n".join(_line(result, guard_only) for result in results)


def _line(result: Result, guard_only: bool) -> str:
    if result.error:
        said = f"ERROR {result.error}"
    elif not result.acts:
        said = "NO-OP"
    elif guard_only:
        said = f"acts: {result.acts}"
    elif not result.verdict:
        said = "missed" + (f" (skipped: {'; '.join(result.skipped)})" if result.skipped else "")
    else:
        place = {None: "", True: ", place named", False: ", place NOT named"}[result.place]
        said = f"{result.verdict} {', '.join(result.codes)}{place}"
    others = f"  [also {', '.join(result.others)}]" if result.others else ""
    return f"{result.fault:48} {result.host:22} {said}{others}  ({result.seconds:.1f} s)"


def summary(results: list[Result], *, guard_only: bool) -> str:
    """Counts by group and by kind of host."""
    acting = [r for r in results if r.acts and not r.error]
    lines = [
        "",
        f"{len(results)} pairs of {len({r.fault for r in results})} faults and "
        f"{len({r.host for r in results})} hosts; no-ops {sum(not r.acts for r in results)}, "
        f"errors {sum(bool(r.error) for r in results)}, "
        f"{sum(r.seconds for r in results):.0f} s",
    ]
    if guard_only or not acting:
        return "\n".join(lines)
    lines += _shares("group", acting, lambda r: r.fault.split("/")[0])
    lines += _shares("kind of host", acting, lambda r: r.kind)
    lines += _shares("all", acting, lambda r: "held out" if r.held_out else "development")
    return "\n".join(lines)


def _shares(title: str, results: list[Result], key: Callable[[Result], str]) -> list[str]:
    groups = defaultdict(list)
    for result in results:
        groups[key(result)].append(result)
    lines = ["", f"{title:16} {'pairs':>6} {'found':>7} {'by fail':>8} {'place':>7} {'others':>7}"]
    for name, group in groups.items():
        found = [r for r in group if r.verdict]
        placed = [r for r in found if r.place is not None]
        named = f"{sum(bool(r.place) for r in placed) / len(placed):6.1%}" if placed else "–"
        lines.append(
            f"{name:16} {len(group):6} {len(found) / len(group):7.1%} "
            f"{sum(r.verdict == 'fail' for r in group) / len(group):8.1%} {named:>7} "
            f"{sum(len(r.others) for r in group) / len(group):7.2f}"
        )
    return lines


def clean_table(clean: Iterable[Clean]) -> str:
    """Everything on clean hosts that is not a pass: possible false alarms, and skips."""
    lines = ["", "Clean hosts, all that is not a pass:"]
    for each in clean:
        if each.error:
            lines.append(f"{each.host:22} {each.weights:8} ERROR {each.error}")
        for code, verdict, evidence in each.findings:
            if verdict not in ("skip", "n/a"):
                lines.append(f"{each.host:22} {each.weights:8} {verdict} {code}: {evidence}")
        verdicts = [verdict for _, verdict, _ in each.findings]
        lines.append(
            f"{each.host:22} {each.weights:8} {verdicts.count('skip')} skipped, "
            f"{verdicts.count('n/a')} not applicable ({each.seconds:.1f} s)"
        )
    return "\n".join(lines)
