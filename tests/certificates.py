"""Certificates for the tests: an authority, and server certificates good and bad."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)


class Pair(NamedTuple):
    """Certificate and key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority of its own, in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        built = _builder(self._name, self._name, self._key, _NOW - _DAY, _NOW + 10 * _DAY)
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        built = built.add_extension(_usage(sign=True), critical=True)
        self._certificate = built.sign(self._key, hashes.SHA256())
        self.file = folder / "ca.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, host: str = "127.0.0.1", expired: bool = False) -> Pair:
        """A server (or client) certificate signed by this authority."""
        return self._make(name, host, expired, signed=True)

    def self_signed(self, name: str, host: str = "127.0.0.1") -> Pair:
        """A certificate that nobody but itself vouches for."""
        return self._make(name, host, expired=False, signed=False)

    def _make(self, name: str, host: str, expired: bool, signed: bool) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        begin, end = (_NOW - 3 * _DAY, _NOW - _DAY) if expired else (_NOW - _DAY, _NOW + 5 * _DAY)
        built = _builder(subject, self._name if signed else subject, key, begin, end)
        try:
            alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            alternative = x509.DNSName(host)
        built = built.add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        built = built.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((self._key if signed else key).public_key()),
            critical=False,
        )
        certificate = built.sign(self._key if signed else key, hashes.SHA256())
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, sign, sign, False, False)
