//! The measured tools.

use std::path::Path;

use crate::{Error, measure::Invocation, programs::Programs};

/// A measured program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tool {
    Sapwood,
    /// Git with a checkout worker for each core.
    Git,
    /// Git with its default settings.
    GitDefault,
    Gix,
}

impl Tool {
    /// Returns the name in reports. Git's holds its number of workers.
    pub(super) fn name(self, cores: usize) -> String {
        match self {
            Tool::Sapwood => "sapwood".into(),
            Tool::Git => format!("git-{cores}"),
            Tool::GitDefault => "git-1".into(),
            Tool::Gix => "gix".into(),
        }
    }

    /// Returns a call of the tool with settings of the server.
    pub(super) fn invocation(
        self,
        programs: &Programs,
        git: &Path,
        settings: &[String],
        words: &[String],
        cwd: &Path,
    ) -> Result<Invocation, Error> {
        let program = match self {
            Tool::Sapwood => programs.sapwood.as_path(),
            Tool::Git | Tool::GitDefault => git,
            Tool::Gix => programs.gix.as_deref().ok_or_else(|| Error::Setup("there is no gix".into()))?,
        };
        let mut settings = settings.to_vec();
        if self == Tool::Git {
            // Zero is the number of cores. Indexing a pack takes all cores by itself.
            settings.extend(["checkout.workers=0".into(), "fetch.parallel=0".into()]);
        }
        let mut all: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting.as_str()]).collect();
        all.extend(words.iter().map(String::as_str));
        let ca_file = settings.iter().find_map(|setting| setting.strip_prefix("http.sslCAInfo="));
        // A gix without libcurl takes the certificates from this variable.
        let outside = match ca_file {
            Some(path) if self == Tool::Gix => vec!["/usr/bin/env".into(), format!("SSL_CERT_FILE={path}")],
            _ => Vec::new(),
        };
        Ok(Invocation { outside, ..Invocation::new(program, &all, cwd) })
    }
}
