//! The command line of ssh, for OpenSSH and the other programs that Git knows.
//!
//! Source: git-config(1) `core.sshCommand`, `ssh.variant`; git(1) `GIT_SSH`, `GIT_SSH_COMMAND`,
//! `GIT_SSH_VARIANT`.

use std::process::{Command, Stdio};

use ::http::AddressFamily;
use bstr::{BString, ByteSlice};
use format::keys;

use super::{
    Error, Settings, Version,
    shell::{first_word, through_shell},
    url::Url,
};

/// The kinds of ssh, which have different options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    OpenSsh,
    /// No options at all.
    Simple,
    /// `plink` and `putty`
    Plink,
    Tortoise,
}

/// The ssh program, by the way in which its command line is split.
enum Program {
    /// A command line for the shell.
    Shell(BString),
    /// A path.
    Path(BString),
}

/// The parameters of the command line.
pub(super) struct Ssh<'a> {
    pub(super) settings: &'a dyn Settings,
    pub(super) url: &'a Url,
    pub(super) family: AddressFamily,
    pub(super) version: Version,
}

impl Ssh<'_> {
    /// Returns the process that runs `remote_command` on the host. `prepare` sets environment and
    /// directory.
    pub(super) fn command(
        &self,
        remote_command: &[u8],
        prepare: &dyn Fn(&mut Command),
    ) -> Result<Command, Error> {
        let program = self.program();
        let variant = match self.variant(&program)? {
            Some(variant) => variant,
            None => self.detect(&program, prepare)?,
        };
        let mut args = self.options(variant)?;
        args.push(self.url.host.clone());
        args.push(remote_command.into());
        let mut command = program.command(&args);
        prepare(&mut command);
        if variant == Variant::OpenSsh {
            self.request_version(&mut command);
        }
        Ok(command)
    }

    /// Sets the variable that OpenSSH sends to the server.
    fn request_version(&self, command: &mut Command) {
        if self.version != Version::V0 {
            command.env("GIT_PROTOCOL", format!("version={}", self.version.number()));
        }
    }

    fn program(&self) -> Program {
        let command = self
            .settings
            .variable("GIT_SSH_COMMAND")
            .or_else(|| self.settings.string(keys::core::SSH_COMMAND.name()));
        match command {
            Some(command) => Program::Shell(command.into()),
            None => Program::Path(self.settings.variable("GIT_SSH").unwrap_or("ssh".into()).into()),
        }
    }

    /// Returns the configured variant, or the one that the program's name implies. `None` if
    /// neither determines it.
    fn variant(&self, program: &Program) -> Result<Option<Variant>, Error> {
        let named = self
            .settings
            .variable("GIT_SSH_VARIANT")
            .or_else(|| self.settings.string(keys::ssh::VARIANT.name()));
        if let Some(name) = named.filter(|name| *name != "auto") {
            return Ok(match name.as_bytes() {
                b"plink" | b"putty" => Some(Variant::Plink),
                b"tortoiseplink" => Some(Variant::Tortoise),
                b"simple" => Some(Variant::Simple),
                _ => Some(Variant::OpenSsh),
            });
        }
        let path = match program {
            Program::Path(path) => Some(path.clone()),
            Program::Shell(command) => first_word(command),
        };
        let Some(path) = path else { return Ok(None) };
        let name = path.rsplit_str("/").next().unwrap_or_default().to_ascii_lowercase();
        let name = name.strip_suffix(b".exe").unwrap_or(&name);
        Ok(match name {
            b"ssh" => Some(Variant::OpenSsh),
            b"plink" => Some(Variant::Plink),
            b"tortoiseplink" => Some(Variant::Tortoise),
            _ => None,
        })
    }

    /// Detects the variant: OpenSSH supports `-G`, which prints its configuration.
    fn detect(&self, program: &Program, prepare: &dyn Fn(&mut Command)) -> Result<Variant, Error> {
        let mut args = vec![BString::from("-G")];
        args.extend(self.options(Variant::OpenSsh)?);
        args.push(self.url.host.clone());
        let mut command = program.command(&args);
        prepare(&mut command);
        self.request_version(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        sys::interrupt::install();
        match command.status() {
            Ok(status) if status.success() => Ok(Variant::OpenSsh),
            _ => Ok(Variant::Simple),
        }
    }

    fn options(&self, variant: Variant) -> Result<Vec<BString>, Error> {
        let refuse =
            |what: &str| Err(Error::Message(format!("ssh variant 'simple' does not support {what}")));
        let mut args: Vec<BString> = Vec::new();
        if variant == Variant::OpenSsh && self.version != Version::V0 {
            args.extend(["-o".into(), "SendEnv=GIT_PROTOCOL".into()]);
        }
        let family = match self.family {
            AddressFamily::Any => None,
            AddressFamily::V4 => Some("-4"),
            AddressFamily::V6 => Some("-6"),
        };
        match (family, variant) {
            (Some(family), Variant::Simple) => return refuse(family),
            (Some(family), _) => args.push(family.into()),
            (None, _) => {}
        }
        if variant == Variant::Tortoise {
            args.push("-batch".into());
        }
        if let Some(port) = &self.url.port {
            match variant {
                Variant::Simple => return refuse("setting port"),
                Variant::OpenSsh => args.push("-p".into()),
                Variant::Plink | Variant::Tortoise => args.push("-P".into()),
            }
            args.push(port.clone());
        }
        Ok(args)
    }
}

impl Program {
    fn command(&self, args: &[BString]) -> Command {
        match self {
            Program::Shell(text) => through_shell(text, args),
            Program::Path(path) => {
                let mut command = Command::new(sys::os_str(path));
                command.args(args.iter().map(|arg| sys::os_str(arg)));
                command
            }
        }
    }
}
