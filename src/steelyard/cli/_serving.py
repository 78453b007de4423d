"""``steelyard serve``: a server for a team, or for one person on one machine."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from steelyard.errors import EngineMissing, InvalidTask
from steelyard.privacy import whole_number
from steelyard.requests import Reply


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``serve``."""
    serve = commands.add_parser("serve", parents=[shared], help="a server: plans, questions and answers over HTTP")
    serve.add_argument(
        "action",
        nargs="?",
        choices=("check", "link", "web", "worker"),
        help="check the settings; make a link that signs a person in; or run one of the two processes alone",
    )
    serve.add_argument("person", nargs="?", help="whom a link is for")
    serve.add_argument("--config", metavar="FILE", help="settings in TOML")
    serve.add_argument("--folder", help="where ledger and records are kept (default: ~/.steelyard/serve)")
    serve.add_argument("--port", type=whole_number, help="the port (default 8020)")
    serve.add_argument("--host", help="the address to listen on (default 127.0.0.1; another needs --public-url)")
    serve.add_argument("--public-url", metavar="URL", help="the https address that people use")
    serve.add_argument("--trusted-proxy", metavar="ADDRESS", help="the proxy whose X-Forwarded-For is believed")
    serve.set_defaults(run=_serve)


def _serve(args: argparse.Namespace) -> Reply:
    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2", "python_multipart"))):
        raise EngineMissing("a server needs a few more packages.", install="pip install 'steelyard[server]'")
    from steelyard.server import Server, check, link, read_config, serve, serve_one

    names = ("folder", "port", "host", "public_url", "trusted_proxy")
    config = read_config(args.config, **{name: getattr(args, name) for name in names})
    if args.action == "check":
        findings = check(config)
        return Reply("\n".join(findings) or "nothing unsafe was found.", {"findings": findings}, 2 if findings else 0)
    if args.action == "link":
        server = Server(config)
        person = server.people.named(args.person or "")
        if person is None:
            raise InvalidTask(f"there is no person named {args.person!r}.")
        server.ledger.note(person.name, act="made a link on the server", account="", person="")
        return Reply(link(server, person.id), {})
    if args.action in ("web", "worker") and not args.plan:
        serve_one(args.action, config)
        return Reply("stopped.")
    if args.plan:
        return Reply(f"would listen on {config.host}:{config.port} and keep everything in {config.folder}", {})
    serve(config)
    return Reply("stopped.")
