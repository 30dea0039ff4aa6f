"""Dovecot on loopback with one mailbox: a real IMAP server, if it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "invoices@example.org", "only for this test"

_CONFIG = """
base_dir = {root}/run
state_dir = {root}/state
log_path = {root}/log
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{root}/cert.pem
ssl_key = <{root}/key.pem
mail_location = maildir:{root}/mail
first_valid_uid = 1
auth_mechanisms = plain xoauth2
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {root}/oauth2.conf
}}
passdb {{
  driver = passwd-file
  args = scheme=plain username_format=%u {root}/passwords
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={root}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
"""


@dataclass(frozen=True)
class MailServer:
    """A mailbox of `USER`. `certificate` is what a client has to trust."""

    url: str
    root: Path
    certificate: Path
    owner: tuple[int, int]

    def deliver(self, message: EmailMessage | bytes, name: str) -> None:
        """Put a message into the INBOX. A name of a maildir's file sorts and never repeats."""
        new = self.root / "mail/new"
        new.mkdir(parents=True, exist_ok=True)
        for folder in (self.root / "mail", new):
            os.chown(folder, *self.owner)
        file = new / f"{len(list(new.iterdir())):06}.{name}"
        file.write_bytes(message if isinstance(message, bytes) else message.as_bytes())
        os.chown(file, *self.owner)

    def set_password(self, password: str) -> None:
        (self.root / "passwords").write_text(f"{USER}:{{PLAIN}}{password}\n")
        time.sleep(1.1)  # Dovecot looks at the file once a second

    def allow_reading(self, name: str, is_allowed: bool) -> None:
        """Let the server read a message of this name, or not."""
        (file,) = (self.root / "mail").glob(f"*/*.{name}*")
        file.chmod(0o600 if is_allowed else 0)

    def renumber(self) -> None:
        """Give all mails new numbers, with another UIDVALIDITY."""
        for file in (self.root / "mail").glob("dovecot*"):
            file.unlink()


def mail(subject: str, body: str = "See the attachment.", **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Shop <shop@example.com>", USER, subject
    message["Message-ID"] = f"<{subject.replace(' ', '.')}@example.com>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(body)
    return message


@contextmanager
def mail_server(tokeninfo_url: str = "http://127.0.0.1:9/") -> Iterator[MailServer]:
    """Start Dovecot. Skips the test if it is not installed. It accepts the access tokens about which `tokeninfo_url`
    plus the token returns the user's address."""
    dovecot = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin")
    if dovecot is None or os.geteuid() != 0:
        pytest.skip("needs Dovecot (Debian: dovecot-imapd), started as root")
    with tempfile.TemporaryDirectory(prefix="fieldmark-mail-") as folder, socket.socket() as probe:
        root, owner = Path(folder), (65534, 65534)
        root.chmod(0o755)
        _write_certificate(root)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        (root / "mail").mkdir()
        os.chown(root / "mail", *owner)
        config = root / "dovecot.conf"
        config.write_text(_CONFIG.format(root=root, port=port, uid=owner[0], gid=owner[1]))
        server = MailServer(f"imaps://localhost:{port}", root, root / "cert.pem", owner)
        server.set_password(PASSWORD)
        (root / "oauth2.conf").write_text(f"tokeninfo_url = {tokeninfo_url}\nusername_attribute = email\n")
        process = subprocess.Popen([dovecot, "-F", "-c", config])
        try:
            _wait_for(port, root / "log")
            yield server
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int, log: Path) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(log.read_text() if log.exists() else "Dovecot did not start")


def _write_certificate(root: Path) -> None:
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (root / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (root / "key.pem").write_bytes(private)
