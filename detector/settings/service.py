"""The `state:`, `http:` and `edge:` groups of config.yaml.

Apart from the code that uses them, so that reading a configuration imports neither SQLite nor a web server.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from connectors.base import ConnectorError, Settings
from connectors.settings.secrets import FilePath, Secret, WithSecrets
from connectors.settings.units import Duration, Size
from detector.settings.base import setting
from detector.settings.diagnosis import Name
from detector.settings.span import Ticks

DEFAULT_PORT = 9178
LEAST_KEY = 16  # bytes of the key that boxes of one network share


class StateSettings(Settings):
    """Where the daemon stores its state, and how much of it."""

    directory: FilePath | None = setting(
        None,
        "Folder of the database; default: $STATE_DIRECTORY (systemd sets it), else detector-state in the "
        "working folder.",
        applies="restart",
    )
    commit_every: Duration = Field(
        default=1.0, description="Longest time before accepted samples are committed to disk.", gt=0, le=60
    )
    commit_samples: int = Field(
        default=10_000, description="Number of accepted samples that forces a commit.", ge=1, le=1_000_000
    )
    snapshot_every: Duration = Field(
        default=300.0, description="Time between snapshots; a restart replays what came after.", gt=0
    )
    journal_max: Size = Field(
        default=6 * 2**20,
        description="A journal of this size, or of twice the size of a snapshot, forces a snapshot.",
        ge=65536,
    )
    history: int = Field(
        default=10_000, description="Records kept for listing, besides those of labelled incidents.", ge=100
    )
    history_size: Size = Field(
        default=8 * 2**20, description="Largest total size of these records.", ge=2**20
    )
    labelled_size: Size = Field(
        default=4 * 2**20,
        description="Largest total size of the records of labelled incidents, and of the labels themselves.",
        ge=2**20,
    )
    signals_size: Size = Field(
        default=10 * 2**20,
        description="Largest total size of the stored signals of nodes, for the pages of nodes and "
        "incidents; half as much is kept besides of the signals of incidents.",
        ge=2**20,
    )
    backup_every: Duration = Field(
        default=6 * 3600.0,
        description="Time between copies of what was learnt, in the folder `backups` of the state; a copy is "
        "also made after every calibration.",
        ge=1,
    )
    backup_keep: int = Field(
        default=3, description="Number of these copies that are kept; 0: none are made.", ge=0, le=100
    )
    outbox_records: int = Field(
        default=10_000, description="Largest number of undelivered records per sink.", ge=1, le=1_000_000
    )
    outbox_size: Size = Field(
        default=8 * 2**20, description="Largest total size of undelivered records per sink.", ge=65536
    )
    outbox_full: Literal["drop_oldest", "drop_newest"] = Field(
        default="drop_oldest", description="Which records a full outbox drops; every drop is counted."
    )
    outbox_tries: int = Field(
        default=8,
        description="Attempts to deliver a record that a sink refuses while it accepts others; after that "
        "it is "
        "set aside, and sent again on demand.",
        ge=1,
        le=100,
    )
    set_aside_size: Size = Field(
        default=2 * 2**20,
        description="Largest total size of records set aside per sink; the oldest are deleted and counted "
        "as dropped.",
        ge=65536,
    )

    def folder(self) -> Path:
        """The folder to use, from the setting, systemd, or the working folder."""
        if self.directory is not None:
            return self.directory
        given = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
        return Path(given) if given else Path("detector-state")


class ServerTls(WithSecrets):
    """Certificate of the listener, and which clients are admitted."""

    cert_file: FilePath = Field(description="Certificate of the daemon, with its chain (PEM).")
    key_file: FilePath = Field(description="Private key of cert_file (PEM).")
    key_password: Secret = Field(default=None, description="Password of key_file, as ${VARIABLE}.")
    key_password_file: FilePath | None = Field(
        default=None, description="File with the password of key_file."
    )
    client_ca_file: FilePath | None = Field(
        default=None, description="If set, clients must present a certificate signed by one of these."
    )

    def context(self) -> ssl.SSLContext:
        """A server context, TLS 1.2 at least."""
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            # An empty password instead of None: OpenSSL must never ask at the terminal.
            context.load_cert_chain(self.cert_file, self.key_file, self.secret("key_password") or "")
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            raise ConnectorError(f"http.tls cannot be used: {error}", retry=False) from None
        return context


Role = Literal["view", "operate", "admin"]
ROLES: tuple[Role, ...] = ("view", "operate", "admin")  # each may do what those before it may


class AccessToken(WithSecrets):
    """A token of one person or program, with a name for the audit trail."""

    name: str = Field(
        description="Name of the holder, shown in the audit trail.", min_length=1, max_length=100
    )
    role: Role = Field(
        default="view",
        description="view: read everything; operate: also accept, clear, label, comment, silence, and "
        "push samples; admin: also change settings.",
    )
    token: Secret = Field(default=None, description="The token, as ${VARIABLE}.")
    token_file: FilePath | None = Field(default=None, description="File with the token.")

    @model_validator(mode="after")
    def _one_of(self) -> AccessToken:
        if (self.token is None) == (self.token_file is None):
            raise ValueError("give exactly one of token and token_file")
        return self


class HttpSettings(WithSecrets):
    """The listener for metrics, health, the HTTP API, the console and pushed samples."""

    enabled: bool = setting(True, "Whether to listen at all.", applies="restart")
    host: str = Field(default="127.0.0.1", description="Address to listen on.", min_length=1)
    port: int = Field(
        default=DEFAULT_PORT, description="Port to listen on; 0 takes a free one.", ge=0, le=65535
    )
    token: Secret = Field(
        default=None,
        description="Token that clients must present, as ${VARIABLE}; its role is admin, its name is token.",
    )
    token_file: FilePath | None = Field(default=None, description="File with the token.")
    tokens: list[AccessToken] = Field(
        default_factory=list, description="Further tokens, each with a name and a role.", max_length=100
    )
    tls: ServerTls | None = Field(default=None, description="TLS of the listener.")
    allow_unauthenticated: bool = Field(
        default=False,
        description="Allow listening beyond this machine without tokens or client certificates.",
    )
    max_connections: int = Field(
        default=256, description="Largest number of concurrent connections.", ge=1, le=100_000
    )
    max_body: Size = Field(default=2**20, description="Largest request body, after decompression.", ge=1024)
    max_header: Size = Field(default=32 * 2**10, description="Largest header of a request.", ge=1024)
    header_timeout: Duration = Field(
        default=10.0, description="Longest time to send a header, or between two requests.", gt=0
    )
    body_timeout: Duration = Field(default=10.0, description="Longest time to send a body.", gt=0)
    request_timeout: Duration = Field(
        default=60.0, description="Longest time from header to the last byte of the answer.", gt=0
    )
    max_event_clients: int = Field(default=32, description="Largest number of event-stream clients.", ge=0)
    node_metrics: Literal["top", "listed", "off"] = Field(
        default="top", description="Which nodes have metrics of their own."
    )
    node_metrics_top: int = Field(default=20, description="Number of nodes, for `top`.", ge=1, le=200)
    node_metrics_listed: list[str] = Field(
        default_factory=list, description="Names of the nodes, for `listed`.", max_length=200
    )

    @property
    def wants_token(self) -> bool:
        return self.token is not None or self.token_file is not None or bool(self.tokens)

    @property
    def authenticated(self) -> bool:
        certificates = self.tls is not None and self.tls.client_ca_file is not None
        return self.wants_token or certificates

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @model_validator(mode="after")
    def _guarded(self) -> HttpSettings:
        if self.enabled and not (self.loopback or self.authenticated or self.allow_unauthenticated):
            raise ValueError(
                f"listening on {self.host} needs token_file, token, tokens or tls.client_ca_file "
                "(or allow_unauthenticated: true)"
            )
        return self


class EdgeSettings(WithSecrets):
    """Daemons that watch parts of one network and tell their neighbours parameters and scores of the nodes at
    the cuts, never samples. `graph` holds the whole network, the same in all of them."""

    box: Name | None = setting(
        None,
        "Name of this daemon among the boxes; null: it watches the whole network, cut as the boxes are, as "
        "for learning from a recording of all of it.",
        applies="restart",
    )
    boxes: FilePath | dict[Name, list[str]] = setting(
        ...,
        "Which node belongs to which box: a CSV file with lines node,box, or {box: [nodes]}. The same in "
        "all boxes.",
        applies="restart",
    )
    source: str | None = setting(
        None,
        "Name of the source that receives the neighbours' messages: mqtt, kafka, redis, nats.",
        applies="restart",
    )
    sink: str | None = setting(
        None, "Name of the sink that sends messages to the neighbours.", applies="restart"
    )
    key: Secret = setting(
        None,
        "Secret that all boxes share, of 16 bytes or more; messages are signed with it.",
        applies="restart",
    )
    key_file: FilePath | None = setting(None, "File that holds the key.", applies="restart")
    dictionary: FilePath | None = setting(
        None,
        "File of `detector edge export` with the dictionary and features that all boxes share; null: this "
        "box finds its own, for the others to take.",
        applies="restart",
    )
    patience: Ticks = setting(
        5,
        "Ticks for which the last known parameters of a neighbour are used; then its nodes are taken to be "
        "quiet until it is heard again.",
        applies="restart",
        ge=1,
        le=1000,
    )
