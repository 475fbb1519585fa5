"""Commands of a script: builtins that shape variables are followed, text tools imitated, everything else recorded."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autotune.reader import bash_words as w
from autotune.reader import directives, text_tools
from autotune.reader.bash_redirect import without_redirects
from autotune.reader.bash_syntax import text_of
from autotune.reader.bash_test import Answer, Condition

if TYPE_CHECKING:
    from autotune.reader.bash_eval import Interpreter

SHELLS = ("bash", "sh", "zsh", "dash")
_SCRIPTS = (".sh", ".slurm", ".sbatch", ".bash", ".sub", ".conf")
_IGNORED = {
    "set", "ulimit", "trap", "wait", "module", "conda", "pip", "pip3", "mkdir", "rm", "cp", "mv", "ln", "chmod", "sleep", "kill",
    "pkill", "pushd", "popd", "clear", "touch", "hash", "shopt", "alias", "wget", "curl", "git", "tar", "apt", "apt-get", "yum",
    "nvidia-smi", "scontrol", "hostname", "date", "which", "umask", "ls", "df", "free", "ml", "enable", "source_env", "type", "command",
}


class Commands:
    """The commands of one interpreter."""

    def __init__(self, shell: Interpreter) -> None:
        self.shell = shell
        self._builtins: dict[str, Callable[[list[str]], Answer]] = {
            "eval": self._eval, "source": self._source, ".": self._source, "exit": self._exit, "return": self._return,
            "shift": self._shift, "read": self._read, "mapfile": self._mapfile, "readarray": self._mapfile, "cd": self._cd,
            "true": lambda _: True, ":": lambda _: True, "false": lambda _: False, "break": self._leave("break"),
            "continue": self._leave("continue"), "let": self._let, "test": self._test, "[": self._test, "set": self._set,
        }

    def command(self, node: Any, line: int) -> Answer:
        """Follow one command node."""
        shell = self.shell
        assignments, raw, herestring = without_redirects(node)
        fields = shell.expander.words(raw)
        while fields and (w.only_marker(fields[0]) or not fields[0]):
            fields = fields[1:]
        if not fields:
            for text in assignments:
                shell.assign(text)
            return True
        names = [m[0] for text in assignments if (m := re.match(r"[A-Za-z_]\w*", text))]
        before = {name: shell.scope.get(name) for name in names}
        saved = shell.stdin
        if herestring is not None:
            from autotune.reader.bash_eval import Input

            shell.stdin = Input(shell.expander.text(text_of(herestring).lstrip("< ")) + "\n")
        for text in assignments:
            shell.assign(text)
        try:
            return self.run(fields, line)
        finally:
            shell.stdin = saved
            for name, value in before.items():
                if name in shell.scope.forced:
                    continue
                if value is None:
                    shell.scope.values.pop(name, None)
                else:
                    shell.scope.values[name] = value

    def run(self, fields: list[str], line: int) -> Answer:
        """Follow the command with these fields."""
        shell, name = self.shell, fields[0]
        if name in shell.functions:
            return self._call(name, fields[1:])
        if name in ("exec", "builtin", "nohup", "time") and len(fields) > 1 and not fields[1].startswith("-"):
            return self.run(fields[1:], line)
        if name in ("export", "declare", "local", "readonly", "typeset"):
            self._declare_fields(fields[1:])
            return True
        if name == "printf" and fields[1:2] == ["-v"] and len(fields) > 3:
            shell.scope.set(fields[2], text_tools.printf(fields[3:]))
            return True
        if name in self._builtins:
            return self._builtins[name](fields[1:])
        produced = text_tools.output(fields, shell.stdin.text if shell.stdin else None, shell)
        if produced is not None:
            shell.emit(produced)
            return True
        return self._external(fields, line)

    # --- things that are launched ---

    def _external(self, fields: list[str], line: int) -> Answer:
        from autotune.reader.bash_eval import Launch

        shell = self.shell
        if shell.captures and not self._starts_shell(fields) and not shell.outer:
            inside = [n for f in fields for n in w.names_missing(f)]
            shell.emit(w.unknown(f"$({' '.join(fields)[:60]})" if not inside else "$(" + fields[0] + ")").replace(",", " ") + "\n")
            if len(shell.captures) > 0 and fields[0] not in ("torchrun", "srun", "python", "python3", "deepspeed", "accelerate"):
                return True
        if fields[0] in _IGNORED:
            return None if fields[0] in ("which", "type", "command") else True
        if self._inner_shell(fields, line):
            return True
        if self._job_script(fields, line):
            return True
        variables = {k: v for k, v in shell.scope.values.items() if isinstance(v, str)}
        shell.state.launches.append(Launch(fields, [list(o) for o in shell.outer], variables, dict(shell.counts), line))
        return True

    @staticmethod
    def _starts_shell(fields: list[str]) -> bool:
        return posixpath.basename(fields[0]) in (*SHELLS, "sbatch", "srun")

    def _inner_shell(self, fields: list[str], line: int) -> bool:
        """`... bash -c TEXT args`: follow TEXT, with what stands before as the launcher around it."""
        shell = self.shell
        for i, word in enumerate(fields[:-2]):
            if posixpath.basename(word) in SHELLS and re.fullmatch(r"-[a-z]*c", fields[i + 1]):
                self._nested(fields[:i], fields[i + 2], fields[i + 4 :], line)
                return True
        if posixpath.basename(fields[0]) in (*SHELLS, "sbatch") and shell.stdin and len(fields) - _options(fields) == 1:
            self._nested(fields if fields[0] == "sbatch" else [], shell.stdin.text, [], line)
            return True
        return False

    def _job_script(self, fields: list[str], line: int) -> bool:
        """`bash x.sh args`, `sbatch -N 8 x.sh`, `./x.sh`: follow the file if it is within reach, and record the call too."""
        shell = self.shell
        at = next((i for i, f in enumerate(fields) if f.endswith(_SCRIPTS) and not f.startswith("-")), None)
        if at is None or any(f.endswith(".py") for f in fields[:at]):
            return False
        if at > 0 and posixpath.basename(fields[0]) not in (*SHELLS, "sbatch", "srun", "mpirun", "mpiexec"):
            return False
        text = shell.files.read(fields[at], wanted=False)
        if text is None:
            return False
        saved, script = shell.scope.script, shell.files.locate(fields[at])
        shell.scope.script = str(script or fields[at])
        try:
            self._nested(fields[:at] if at else [], text, fields[at + 1 :], line)
        finally:
            shell.scope.script = saved
        return False  # the call itself may carry the flags

    def _nested(self, outer: list[str], text: str, arguments: list[str], line: int) -> None:
        from autotune.reader.bash_eval import Stop

        shell = self.shell
        saved, counts = shell.fork(), dict(shell.counts)
        captures, shell.captures = shell.captures, []
        shell.counts |= directives.from_words(outer) if outer else {}
        shell.scope.positional = arguments
        shell.stdin = None
        if outer:
            shell.outer.append(outer)
        offset, shell.line_offset = shell.line_offset, line - 1
        try:
            shell.run_text(text)
        except Stop:
            pass
        finally:
            shell.line_offset = offset
            shell.captures = captures
            if outer:
                shell.outer.pop()
            shell.join(saved)
            shell.counts = counts

    # --- builtins ---

    def declare(self, text: str, children: list[Any]) -> None:
        """`export`, `local`, `declare` with their assignments."""
        shell = self.shell
        associative = bool(re.match(r"\w+\s+(-\w+\s+)*-\w*A", text))
        reference = bool(re.match(r"\w+\s+(-\w+\s+)*-\w*n", text))
        for child in children:
            if child.type == "variable_assignment":
                source = text_of(child)
                if reference:
                    name, _, value = source.partition("=")
                    shell.scope.references[name] = shell.expander.text(value)
                else:
                    shell.assign(source, associative)
            elif child.type not in ("variable_name", "word"):
                self._declare_fields(shell.expander.fields(text_of(child)))

    def _declare_fields(self, fields: list[str]) -> None:
        for field in fields:
            name, equals, value = field.partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
                self.shell.scope.set(name, value)

    def _call(self, name: str, arguments: list[str]) -> Answer:
        from autotune.reader.bash_expand import TooLarge
        from autotune.reader.bash_loops import Leave

        shell = self.shell
        shell._depth += 1
        if shell._depth > 30:
            raise TooLarge(name)
        positional, references = shell.scope.positional, dict(shell.scope.references)
        shell.scope.positional = arguments
        try:
            return shell.statement(shell.functions[name])
        except Leave as e:
            if e.kind != "return":
                raise
            return True
        finally:
            shell._depth -= 1
            shell.scope.positional, shell.scope.references = positional, references

    def _eval(self, arguments: list[str]) -> Answer:
        return self.shell.run_text(" ".join(arguments))

    def _source(self, arguments: list[str]) -> Answer:
        from autotune.reader.bash_loops import Leave

        shell = self.shell
        if not arguments:
            return True
        text = shell.files.read(arguments[0], wanted=False)
        if text is None:
            shell.note(f"sourced file {arguments[0]} is not within reach; what it sets is unknown")
            return True
        saved = shell.scope.script
        shell.scope.script = str(shell.files.locate(arguments[0]) or arguments[0])
        try:
            return shell.run_text(text)
        except Leave:
            return True
        finally:
            shell.scope.script = saved

    def _exit(self, arguments: list[str]) -> Answer:
        from autotune.reader.bash_eval import Stop

        code = w.plain(arguments[0]) if arguments else "0"
        if code not in ("0", "", None) and not self.shell.state.launches:
            self.shell.state.stopped = self.shell.state.stopped or f"exit {code}"
        if self.shell.ignore_exit:
            return True
        raise Stop

    def _return(self, arguments: list[str]) -> Answer:
        from autotune.reader.bash_loops import Leave

        raise Leave("return")

    def _leave(self, kind: str) -> Callable[[list[str]], Answer]:
        from autotune.reader.bash_loops import Leave

        def leave(_: list[str]) -> Answer:
            raise Leave(kind)

        return leave

    def _shift(self, arguments: list[str]) -> Answer:
        n = int(arguments[0]) if arguments and arguments[0].isdigit() else 1
        self.shell.scope.positional = self.shell.scope.positional[n:]
        return True

    def _set(self, arguments: list[str]) -> Answer:
        if "--" in arguments:
            self.shell.scope.positional = arguments[arguments.index("--") + 1 :]
        return True

    def _read(self, arguments: list[str]) -> Answer:
        shell = self.shell
        line = shell.stdin.line() if shell.stdin else None
        if line is None:
            return False
        names = [a for a in arguments if not a.startswith("-")]
        ifs = shell.scope.get("IFS")
        separators = ifs if isinstance(ifs, str) and ifs else " \t\n"
        parts = [p for p in re.split(f"[{re.escape(separators)}]", line) if p or separators.strip()]
        if any(re.fullmatch(r"-\w*a", a) for a in arguments):
            shell.scope.set(names[0] if names else "REPLY", parts)
            return True
        for i, name in enumerate(names or ["REPLY"]):
            last = i == len(names) - 1 or not names
            joined = separators[0].join(parts[i:]) if last else parts[i] if i < len(parts) else ""
            shell.scope.set(name, joined)
        return True

    def _mapfile(self, arguments: list[str]) -> Answer:
        names = [a for a in arguments if not a.startswith("-")]
        text = self.shell.stdin.text if self.shell.stdin else ""
        self.shell.scope.set(names[-1] if names else "MAPFILE", text.splitlines())
        return True

    def _cd(self, arguments: list[str]) -> Answer:
        target = next((a for a in arguments if not a.startswith("-")), "")
        if target:
            self.shell.cwd = target if target.startswith("/") or not w.is_known(target) else posixpath.join(self.shell.cwd, target)
            self.shell.cwd = posixpath.normpath(self.shell.cwd)
        return True

    def _let(self, arguments: list[str]) -> Answer:
        value = "0"
        for expression in arguments:
            value = self.shell.expander.arithmetic(expression)
        return None if w.plain(value) is None else value != "0"

    def _test(self, arguments: list[str]) -> Answer:
        words = arguments[:-1] if arguments[-1:] == ["]"] else arguments
        quoted = " ".join("'" + x.replace("'", "'\\''") + "'" if x not in ("!", "-a", "-o") else x for x in words)
        return Condition(self.shell.expander, double=False).answer(quoted)


def _options(fields: list[str]) -> int:
    return sum(1 for f in fields[1:] if f.startswith("-") or w.only_marker(f) or f.isdigit())
