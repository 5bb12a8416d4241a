"""Secrets come from a file or from the environment, never from the configuration itself; and TLS.

A model with a secret derives from `WithSecrets` and has two fields per secret, `password:
Secret = None` and `password_file: FilePath = None`. In the configuration one may write
`password_file: /run/credentials/password` or `password: ${VARIABLE}`, not both, and no literal.
"""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr, WithJsonSchema, model_validator

from connectors.base import ConnectorError, Settings

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Refused:
    """Stands in for a value that must not be echoed; carries only what to say about it."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return "<secret>"


def _resolve(value: Any, name: str) -> Any:
    if value is None or isinstance(value, (SecretStr, _Refused)):
        return value
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _Refused(
            f"a secret may not stand in the configuration: write {name}: ${{VARIABLE}} or {name}_file: PATH"
        )
    found = os.environ.get(match[1])
    if not found:
        return _Refused(f"the environment variable {match[1]} is not set")
    return SecretStr(found)


def _refuse(value: Any) -> Any:
    if isinstance(value, _Refused):
        raise ValueError(value.message)
    return value


Secret = Annotated[
    SecretStr | None,
    BeforeValidator(_refuse),
    WithJsonSchema(
        {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$", "examples": ["${PASSWORD}"]}
    ),
]
FilePath = Annotated[Path, Field(strict=False)]


class WithSecrets(Settings):
    """Resolves `${VARIABLE}` before anything else sees the value, so no error can repeat it."""

    @model_validator(mode="before")
    @classmethod
    def _take_secrets(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for name in cls.secret_names():
            if name in data:
                data[name] = _resolve(data[name], name)
            if data.get(name) is not None and data.get(name + "_file") is not None:
                data[name] = _Refused(f"give {name} or {name}_file, not both")
        return data

    @classmethod
    def secret_names(cls) -> list[str]:
        return [name for name in cls.model_fields if name + "_file" in cls.model_fields]

    def secret(self, name: str) -> str | None:
        """The secret itself; a file is read anew each time, so that rotation needs no restart."""
        given: SecretStr | None = getattr(self, name)
        if given is not None:
            return given.get_secret_value()
        path: Path | None = getattr(self, name + "_file")
        if path is None:
            return None
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectorError(f"cannot read {name}_file {path}: {_plain(error)}", retry=False) from None
        if not text:
            raise ConnectorError(f"{name}_file {path} is empty", retry=False)
        return text


def _plain(error: Exception) -> str:
    return error.strerror or "error" if isinstance(error, OSError) else "not UTF-8 text"


class Tls(WithSecrets):
    """Trust and authentication of TLS connections: TLS 1.2 or later, always verified."""

    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust (PEM); default: the system's."
    )
    cert_file: FilePath | None = Field(
        default=None, description="Client certificate (PEM), if the server requires one."
    )
    key_file: FilePath | None = Field(default=None, description="Private key of cert_file (PEM).")
    key_password: Secret = Field(default=None, description="Password of key_file, as ${VARIABLE}.")
    key_password_file: FilePath | None = Field(
        default=None, description="File with the password of key_file."
    )
    verify_hostname: bool = Field(default=True, description="Whether the certificate must name the host.")

    @model_validator(mode="after")
    def _pairs(self) -> Tls:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file belong together: give both or neither")
        return self

    def context(self) -> ssl.SSLContext:
        """A client context; a file that cannot be used is an error without retry."""
        try:
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.check_hostname = self.verify_hostname
            if self.cert_file and self.key_file:
                # An empty password instead of None: OpenSSL must never ask at the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, self.secret("key_password") or "")
        except (OSError, ValueError) as error:
            raise ConnectorError(f"TLS settings cannot be used: {error}", retry=False) from None
        return context
