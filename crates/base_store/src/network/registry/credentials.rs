//! Credentials for registries from Docker's `config.json`: `credHelpers`, `credsStore`, `auths`.

use std::{
    ffi::OsString,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use sys::by_path;

use crate::Error;

/// A user's right to a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    Password {
        user: String,
        password: String,
    },
    /// A token that other tokens are made from.
    Token(String),
}

/// The place of Docker's configuration, and the `PATH` of its helpers.
#[derive(Clone, Debug)]
pub(super) struct DockerConfig {
    file: Option<PathBuf>,
    path: Option<OsString>,
}

impl DockerConfig {
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<OsString>) -> DockerConfig {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = set("DOCKER_CONFIG").or_else(|| set("HOME").map(|home| home.join(".docker")));
        DockerConfig { file: dir.map(|dir| dir.join("config.json")), path: variable("PATH") }
    }

    /// Returns the credentials for a registry; `None` if there are none.
    pub(super) fn find(&self, host: &str) -> Result<Option<Credentials>, Error> {
        let Some(file) = &self.file else { return Ok(None) };
        let text = by_path::read(file);
        let text = text.map_err(|source| Error::Io { what: "read", path: file.clone(), source })?;
        let Some(text) = text else { return Ok(None) };
        let bad = |reason: &str| Error::Setting(format!("bad file '{}': {reason}", file.display()));
        let config: Value = serde_json::from_slice(&text).map_err(|error| bad(&error.to_string()))?;
        let names = match host {
            "docker.io" => vec!["https://index.docker.io/v1/".into(), host.to_owned()],
            _ => vec![host.to_owned(), format!("https://{host}"), format!("http://{host}")],
        };
        let helper = names.iter().find_map(|name| config["credHelpers"][name.as_str()].as_str());
        if let Some(helper) = helper.or_else(|| config["credsStore"].as_str()) {
            for name in &names {
                if let Some(found) = self.ask(helper, name)? {
                    return Ok(Some(found));
                }
            }
        }
        for name in &names {
            let entry = &config["auths"][name.as_str()];
            if let Some(token) = entry["identitytoken"].as_str().filter(|token| !token.is_empty()) {
                return Ok(Some(Credentials::Token(token.to_owned())));
            }
            if let Some(auth) = entry["auth"].as_str().filter(|auth| !auth.is_empty()) {
                let text = BASE64_STANDARD.decode(auth).ok().and_then(|text| String::from_utf8(text).ok());
                let pair = text.as_deref().and_then(|text| text.split_once(':'));
                let (user, password) = pair.ok_or_else(|| bad(&format!("auth of {name}")))?;
                let (user, password) = (user.to_owned(), password.to_owned());
                return Ok(Some(Credentials::Password { user, password }));
            }
        }
        Ok(None)
    }

    /// Runs `docker-credential-<helper> get`.
    fn ask(&self, helper: &str, name: &str) -> Result<Option<Credentials>, Error> {
        let program = format!("docker-credential-{helper}");
        let failed = |reason: &dyn std::fmt::Display| Error::Setting(format!("{program}: {reason}"));
        if helper.contains('/') {
            return Err(failed(&"not the name of a helper"));
        }
        let mut command = Command::new(&program);
        command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        sys::interrupt::install();
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A helper that does not read the name says so by its status.
            let _ = stdin.write_all(name.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(&error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return if text.contains("credentials not found") {
                Ok(None)
            } else {
                Err(failed(&format!("it failed for {name} ({})", output.status)))
            };
        }
        let answer: Value = serde_json::from_str(&text).map_err(|_| failed(&"it wrote no JSON"))?;
        let part = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        Ok(match (part("Username"), part("Secret")) {
            (_, secret) if secret.is_empty() => None,
            (user, secret) if user == "<token>" => Some(Credentials::Token(secret)),
            (user, password) => Some(Credentials::Password { user, password }),
        })
    }
}
