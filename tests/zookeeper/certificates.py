"""Certificates of the tests' own: who signs them, a server's and a client's, in PEM."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

_ALL = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


class Authority:
    """Who signs.

    :param folder: where its files go; ``ca.pem`` is its own certificate.
    """

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = rsa.generate_private_key(65537, 2048)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        built = self._builder(self._name, self._key.public_key()).add_extension(constraints, critical=True)
        self.file = folder / f"{name}-ca.pem"
        self.file.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, address: str = "127.0.0.1", password: str = "") -> tuple[Path, Path]:
        """A certificate for an address: its file, and that of its key; the key is encrypted with a password."""
        key = rsa.generate_private_key(65537, 2048)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = self._builder(subject, key.public_key()).add_extension(names, critical=False)
        certificate = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        how = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        files = self._folder / f"{name}.pem", self._folder / f"{name}-key.pem"
        files[0].write_bytes(certificate)
        files[1].write_bytes(key.private_bytes(*_ALL, how))
        return files

    def _builder(self, subject: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
        now = datetime.now(timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
