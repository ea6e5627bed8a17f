//! The remote that the command line names, and failures of its server.

use std::{io::Read as _, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::refspec::Refspec;
use repo::{
    Repository,
    keys::{self, Key},
    wire::{
        self,
        url::{Scheme, Url},
    },
};
use sapwood::{FileType, HashKind, UserPath};
use sys::by_path;

use crate::{
    session::{invocation::Invocation, settings::config::Config},
    term::{
        console::text,
        failure::Failure,
        text::{os_error, os_str},
    },
};

/// A configured remote, or a URL.
pub(super) struct Remote {
    pub(super) name: BString,
    pub(super) url: BString,
    pub(super) upload_pack: Option<BString>,
    pub(super) server_options: Vec<BString>,
}

impl Remote {
    /// Returns the remote called `name`. A name that is not configured is a URL.
    pub(super) fn find(
        config: &dyn Config,
        repo: Option<&Repository>,
        named: Option<&BStr>,
    ) -> Result<Remote, Failure> {
        let name = match (named, repo) {
            (Some(name), _) if name.is_empty() => return Err(Failure::fatal("bad repository ''")),
            (Some(name), _) => name.to_owned(),
            (None, Some(repo)) => engine::fetch::remote::Remote::default_name(repo)?,
            (None, None) => "origin".into(),
        };
        let all = |key: Key<Option<BString>>| config.all(key.of(&name).name());
        if config.value(keys::remote::VCS.of(&name).name()).is_some() {
            return Err(Failure::Unserved("remote.<name>.vcs"));
        }
        if let Some(repo) = repo
            && !name.contains(&b'/')
            && ["remotes", "branches"]
                .iter()
                .any(|dir| is_file(&repo.common_dir().join(dir).join(os_str(&name))))
        {
            return Err(Failure::Unserved("remotes in files of their own"));
        }
        let is_name = !name.is_empty() && !name.starts_with(b"/");
        let list = |key| {
            if is_name {
                all(key).into_iter().fold(Vec::new(), |mut list, value| {
                    if value.is_empty() {
                        list.clear()
                    } else {
                        list.push(value)
                    }
                    list
                })
            } else {
                Vec::new()
            }
        };
        if is_name {
            check_refspecs(&all(keys::remote::FETCH), &all(keys::remote::PUSH))?;
        }
        let url = match (list(keys::remote::URL).into_iter().next(), named) {
            (Some(url), _) => url,
            (None, Some(_)) => name.clone(),
            (None, None) => return Err(Failure::fatal("No remote configured to list refs from.")),
        };
        let upload_pack = if is_name { all(keys::remote::UPLOADPACK).into_iter().next() } else { None };
        let server_options = list(keys::remote::SERVER_OPTION);
        Ok(Remote { url, upload_pack, server_options, name })
    }
}

/// Returns an error for refspecs that Git rejects, although nothing is fetched or pushed.
fn check_refspecs(fetch: &[BString], push: &[BString]) -> Result<(), Failure> {
    let fetch = fetch.iter().map(|text| Refspec::parse(text.as_bstr(), HashKind::Sha1).map(drop));
    let push = push.iter().map(|text| Refspec::check_for_push(text.as_bstr(), HashKind::Sha1));
    fetch.chain(push).collect::<Result<(), _>>().map_err(|error| Failure::fatal(error.to_string()))
}

fn is_file(path: &Path) -> bool {
    matches!(by_path::stat_followed(path), Ok(Some(stat)) if stat.file_type == FileType::File)
}

/// Returns an error that leaves bundles to Git.
pub(super) fn refuse_bundle(url: &Url, dir: &Path) -> Result<(), Failure> {
    let Some(path) =
        (url.scheme == Scheme::File).then(|| UserPath::new(url.path.as_bstr()).resolve(dir).ok()).flatten()
    else {
        return Ok(());
    };
    let mut start = [0; 3];
    let is_bundle = is_file(&path)
        && by_path::open(&path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"# v");
    if is_bundle { Err(Failure::Unserved("bundles")) } else { Ok(()) }
}

/// Converts an error to the failure that ends the command.
pub(super) fn failure(run: &Invocation, error: wire::Error) -> Failure {
    if run.interrupt.check().is_err() {
        return run.interrupt.failure();
    }
    match error {
        wire::Error::Unsupported(_) => Failure::Unserved("this remote helper"),
        wire::Error::HelperFailed => Failure::Reported(128),
        wire::Error::Failed => Failure::Reported(1),
        other => {
            let cause =
                std::error::Error::source(&other).and_then(|cause| cause.downcast_ref::<std::io::Error>());
            let cause = cause.map(|cause| format!(": {}", os_error(cause))).unwrap_or_default();
            Failure::Fatal(text!(other.to_string(), cause))
        }
    }
}
