//! Credentials of a volume. They live in memory, in the environment of child processes, and in
//! files in memory while a child process runs. No record and no message holds them.

use std::{
    collections::BTreeMap,
    io::Write as _,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use sys::by_path;

use crate::{Error, Volume, state};

/// The keys of a secret, checked. It has no `Debug`, so that no message prints it.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<String, String>);

/// The keys that a secret may have. The first ones are those of Kubernetes' kinds of secrets.
const KEYS: &[&str] = &[
    "username",
    "password",
    "ssh-privatekey",
    "known_hosts",
    ".dockerconfigjson",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
];

/// Answers Git's question for credentials from the environment of the process.
const HELPER: &str = "!f() { [ \"$1\" = get ] && printf 'username=%s\\npassword=%s\\n' \"$VOLUME_USERNAME\" \"$VOLUME_PASSWORD\"; }; f";

impl Secrets {
    /// Reads the keys of a secret.
    pub fn parse<'a>(keys: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Secrets, Error> {
        let mut secrets = Secrets::default();
        for (key, value) in keys {
            if !KEYS.contains(&key) {
                let known = KEYS.join(", ");
                return Err(Error::Invalid(format!("the secret has the key '{key}'; known are {known}")));
            }
            let is_file = ["ssh-privatekey", "known_hosts", ".dockerconfigjson"].contains(&key);
            // Secrets that were made from a file often end with a line end.
            let value = if is_file { value } else { value.trim_end_matches(['\r', '\n']) };
            if !is_file && value.chars().any(char::is_control) || value.contains('\0') {
                return Err(Error::Invalid(format!("the key '{key}' of the secret has control characters")));
            }
            secrets.0.insert(key.to_owned(), value.to_owned());
        }
        if secrets.get("ssh-privatekey").is_some() && secrets.get("known_hosts").is_none() {
            let reason = "the secret has ssh-privatekey without known_hosts, so no host can be trusted";
            return Err(Error::Invalid(reason.into()));
        }
        Ok(secrets)
    }

    /// Returns a name of the credentials, from which nobody learns them.
    pub(crate) fn digest(&self) -> String {
        let parts = self.0.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
        state::digest(parts)
    }

    /// Returns `text` without the values of secrets.
    pub(crate) fn redact(&self, text: &str) -> String {
        let values = self.0.iter().filter(|(key, value)| *key != "username" && value.len() > 3);
        values.fold(text.to_owned(), |text, (_, value)| text.replace(value.trim_end(), "***"))
    }

    /// Writes the files that programs read, below `run`, for the user of the volume. They are
    /// removed when the result is dropped.
    pub(crate) fn open<'a>(&'a self, run: &Path, volume: &'a Volume) -> Result<Opened<'a>, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let files = ["ssh-privatekey", "known_hosts", ".dockerconfigjson"];
        let mut opened = Opened { secrets: self, volume, dir: None };
        if files.iter().all(|key| self.get(key).is_none()) {
            return Ok(opened);
        }
        let dir = run.join(format!("secret-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        by_path::create_private_dir(&dir).map_err(Error::io("make the directory", &dir))?;
        opened.dir = Some(dir.clone());
        let give = |path: &Path| chown(path, Some(volume.uid), Some(volume.gid));
        for key in files {
            let Some(value) = self.get(key) else { continue };
            let path = dir.join(if key == ".dockerconfigjson" { "config.json" } else { key });
            let write = || {
                by_path::create_new(&path, 0o600)?.write_all(value.as_bytes())?;
                give(&path)
            };
            write().map_err(Error::io("write", &path))?;
        }
        give(&dir).map_err(Error::io("give away", &dir))?;
        Ok(opened)
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// Secrets that child processes can read.
pub(crate) struct Opened<'a> {
    secrets: &'a Secrets,
    volume: &'a Volume,
    dir: Option<PathBuf>,
}

impl Opened<'_> {
    /// Returns the secrets.
    pub(crate) fn secrets(&self) -> &Secrets {
        self.secrets
    }

    /// Returns the variables of a child process that reads the repository or the remote of bases.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        let mut settings = Vec::new();
        if let Some(password) = self.secrets.get("password") {
            let username = self.secrets.get("username").unwrap_or("git");
            variables.push(("VOLUME_USERNAME".into(), username.to_owned()));
            variables.push(("VOLUME_PASSWORD".into(), password.to_owned()));
            // Only the server of the repository gets them.
            settings.push((format!("credential.{}.helper", origin(&self.volume.repository)), HELPER));
        }
        if !settings.is_empty() {
            variables.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string()));
        }
        for (number, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{number}"), key));
            variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
        }
        if let Some(dir) = self.dir.as_ref().and_then(|dir| dir.to_str()) {
            if self.secrets.get("ssh-privatekey").is_some() {
                let command = format!(
                    "ssh -F none -i '{dir}/ssh-privatekey' -o IdentitiesOnly=yes -o BatchMode=yes \
                     -o StrictHostKeyChecking=yes -o UserKnownHostsFile='{dir}/known_hosts'"
                );
                variables.push(("GIT_SSH_COMMAND".into(), command));
            }
            if self.secrets.get(".dockerconfigjson").is_some() {
                variables.push(("DOCKER_CONFIG".into(), dir.to_owned()));
            }
        }
        let aws = self.secrets.0.iter().filter(|(key, _)| key.starts_with("AWS_"));
        variables.extend(aws.map(|(key, value)| (key.clone(), value.clone())));
        variables
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            let _ = by_path::remove_dir_all(dir);
        }
    }
}

/// Returns the scheme, host and port of an address.
fn origin(address: &str) -> &str {
    let from = address.find("://").map_or(0, |at| at + 3);
    let length = address[from..].find('/').unwrap_or(address.len() - from);
    &address[..from + length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_to_the_server_of_the_repository() {
        let secrets = Secrets::parse([("username", "me"), ("password", "hush\n")]).expect("known keys");
        let volume =
            Volume { repository: "https://git.example.org:8443/a/b.git".into(), ..Volume::default() };
        let opened = secrets.open(Path::new("/nowhere"), &volume).expect("no files");
        let variables = opened.environment();
        let value =
            |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        assert_eq!(value("VOLUME_PASSWORD").as_deref(), Some("hush"));
        assert_eq!(
            value("GIT_CONFIG_KEY_0").as_deref(),
            Some("credential.https://git.example.org:8443.helper")
        );
        assert_eq!(secrets.redact("fatal: hush is wrong"), "fatal: *** is wrong");
    }

    #[test]
    fn unknown_keys_and_hosts_are_refused() {
        for wrong in [&[("token", "x")][..], &[("ssh-privatekey", "x")], &[("password", "a\nb")]] {
            assert!(matches!(Secrets::parse(wrong.iter().copied()), Err(Error::Invalid(_))));
        }
    }

    #[test]
    fn files_end_with_the_value() {
        let run = tempfile::tempdir().expect("a directory");
        let owner = std::os::unix::fs::MetadataExt::uid(&run.path().metadata().expect("a directory"));
        let volume = Volume { uid: owner, gid: rustix::process::getegid().as_raw(), ..Volume::default() };
        let keys = [("ssh-privatekey", "key\n"), ("known_hosts", "host"), ("AWS_REGION", "eu")];
        let secrets = Secrets::parse(keys).expect("known keys");
        let opened = secrets.open(run.path(), &volume).expect("files");
        let variables = opened.environment();
        assert!(variables.iter().any(|(name, value)| name == "GIT_SSH_COMMAND" && value.contains("secret-")));
        assert!(variables.iter().any(|(name, value)| name == "AWS_REGION" && value == "eu"));
        drop(opened);
        assert_eq!(by_path::list(run.path()).expect("a directory").len(), 0);
    }
}
