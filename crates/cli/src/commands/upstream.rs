//! Setting the upstream of a new branch, and reporting it.

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::{
    names,
    tracking::{self, NoUpstream, Track, Upstream},
};
use format::config::Edit;
use repo::Repository;

use crate::{
    session::settings::Settings,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The ref that a branch starts from, if it can be an upstream.
pub(crate) struct Start(Option<BString>);

impl Start {
    /// Finds the ref. With an explicit `--track`, it is an error if it cannot be an upstream.
    pub(crate) fn find(repo: &Repository, name: &BStr, track: Track) -> Result<Start, Failure> {
        let explicit = track == Track::Explicit;
        let not_a_branch = || {
            Failure::Fatal(text!(
                "cannot set up tracking information; starting point '",
                name,
                "' is not a branch"
            ))
        };
        let mut refs = names::expand(repo, name)?;
        match refs.len() {
            0 if explicit => Err(not_a_branch()),
            0 => Ok(Start(None)),
            1 => {
                let (full, _) = refs.remove(0);
                let branch =
                    full.starts_with(names::BRANCHES) || tracking::is_tracking_ref(repo, full.as_bstr());
                match branch {
                    true => Ok(Start(Some(full))),
                    false if explicit => Err(not_a_branch()),
                    false => Ok(Start(None)),
                }
            }
            _ => Err(Failure::Fatal(text!("ambiguous object name: '", name, "'"))),
        }
    }
}

/// Returns an error if [`set`] would fail. Called before the branch is created.
pub(crate) fn preflight(
    repo: &Repository,
    settings: &Settings,
    branch: &BStr,
    start: &Start,
    track: Track,
) -> Result<(), Failure> {
    let Some(start) = &start.0 else { return Ok(()) };
    let upstream = match tracking::choose_upstream(repo, branch, start.as_bstr(), track) {
        Ok(upstream) => upstream,
        Err(none @ NoUpstream::Ambiguous(_)) => {
            return explain(repo, settings, branch, start.as_bstr(), none);
        }
        Err(_) => return Ok(()),
    };
    rebases(repo, &upstream)?;
    let config = repo.common_dir().join("config");
    store::Lock::wait_until_free(&config, settings.config_locks.wait).map_err(|error| {
        let shown = repo.display_common_file("config");
        let reason = match &error {
            store::Error::CannotLock { source, .. } => sys::reason(source).to_string(),
            _ => "File exists".to_owned(),
        };
        console::error(format!("could not lock config file {}: {reason}", shown.display()));
        console::error("unable to write upstream branch configuration");
        Failure::Reported(1).advised(error.advice())
    })
}

/// Returns true if a pull of a branch with this upstream rebases (`branch.autoSetupRebase`).
fn rebases(repo: &Repository, upstream: &Upstream) -> Result<bool, Failure> {
    let rebase = match repo.config_str("branch.autoSetupRebase").as_ref().map(|value| value.as_bytes()) {
        Some(b"always") => true,
        Some(b"local") => upstream.remote.is_none(),
        Some(b"remote") => upstream.remote.is_some(),
        _ => false,
    };
    match rebase && upstream.merge.len() > 1 {
        true => Err(Failure::fatal(
            "cannot inherit upstream tracking configuration of multiple refs when rebasing is requested",
        )),
        false => Ok(rebase),
    }
}

/// Writes `branch.<name>.remote` and `.merge`, if there is an upstream.
pub(crate) fn set(
    repo: &Repository,
    settings: &Settings,
    branch: &BStr,
    start: Start,
    track: Track,
    quiet: bool,
) -> Result<(), Failure> {
    let Some(start) = start.0 else { return Ok(()) };
    let upstream = match tracking::choose_upstream(repo, branch, start.as_bstr(), track) {
        Ok(upstream) => upstream,
        Err(none) => return explain(repo, settings, branch, start.as_bstr(), none),
    };
    install(repo, settings, branch, &upstream, quiet)
}

/// Sets the upstream of the branch, and reports that unless `quiet`.
pub(crate) fn install(
    repo: &Repository,
    settings: &Settings,
    branch: &BStr,
    upstream: &Upstream,
    quiet: bool,
) -> Result<(), Failure> {
    let rebase = rebases(repo, upstream)?;
    write(repo, settings, branch, upstream, rebase)?;
    if !quiet {
        announce(branch, upstream, rebase);
    }
    Ok(())
}

fn write(
    repo: &Repository,
    settings: &Settings,
    branch: &BStr,
    upstream: &Upstream,
    rebase: bool,
) -> Result<(), Failure> {
    let key = |name: &str| text!("branch.", branch, ".", name);
    let remote = upstream.remote.clone().unwrap_or_else(|| ".".into());
    let mut edits = vec![Edit::Set { key: key("remote"), value: remote }, Edit::Unset { key: key("merge") }];
    edits.extend(upstream.merge.iter().map(|name| Edit::Add { key: key("merge"), value: name.clone() }));
    if rebase {
        edits.push(Edit::Set { key: key("rebase"), value: "true".into() });
    }
    let path = repo.common_dir().join("config");
    match store::config::edit(&path, &edits, &settings.config_locks, &settings.fsync) {
        Err(store::config::Error::Store(store::Error::Locked { .. } | store::Error::CannotLock { .. })) => {
            Err(not_written(repo, branch, upstream))
        }
        edited => Ok(edited?),
    }
}

/// Reports that the branch exists, but another process has the configuration locked.
fn not_written(repo: &Repository, branch: &BStr, upstream: &Upstream) -> Failure {
    let shown = repo.display_common_file("config");
    console::error(format!("could not lock config file {}: File exists", shown.display()));
    console::error("unable to write upstream branch configuration");
    console::hint(
        "\nAfter fixing the error cause you may try to fix up\n\
         the remote tracking information by invoking:",
    );
    match (&upstream.merge[..], &upstream.remote) {
        ([only], Some(remote)) => {
            console::hint(text!("  git branch --set-upstream-to=", remote, "/", only));
        }
        ([only], None) => console::hint(text!("  git branch --set-upstream-to=", only)),
        (many, remote) => {
            let remote = remote.clone().unwrap_or_else(|| ".".into());
            console::hint(text!("  git config --add branch.\"", branch, "\".remote ", remote));
            for name in many {
                console::hint(text!("  git config --add branch.\"", branch, "\".merge ", name));
            }
        }
    }
    Failure::Reported(1)
}

fn announce(branch: &BStr, upstream: &Upstream, rebase: bool) {
    let friendly = |name: &BString| {
        let short = name.strip_prefix(names::BRANCHES).unwrap_or(name);
        match &upstream.remote {
            Some(remote) => text!(remote, "/", short),
            None => short.into(),
        }
    };
    match &upstream.merge[..] {
        [only] => {
            let end = if rebase { "' by rebasing." } else { "'." };
            console::out(text!("branch '", branch, "' set up to track '", friendly(only), end));
        }
        many => {
            console::out(text!("branch '", branch, "' set up to track:"));
            for name in many {
                console::out(text!("  ", friendly(name)));
            }
        }
    }
}

fn explain(
    repo: &Repository,
    settings: &Settings,
    branch: &BStr,
    start: &BStr,
    none: NoUpstream,
) -> Result<(), Failure> {
    let short = start.strip_prefix(names::BRANCHES).unwrap_or(start);
    match none {
        NoUpstream::NotWanted => {}
        NoUpstream::Itself => {
            console::warning(text!("not setting branch '", branch, "' as its own upstream"));
        }
        NoUpstream::StartHasNoRemote => {
            console::warning(text!("asked to inherit tracking from '", short, "', but no remote is set"))
        }
        NoUpstream::StartHasNoMerge => console::warning(text!(
            "asked to inherit tracking from '",
            short,
            "', but no merge configuration is set"
        )),
        NoUpstream::Ambiguous(remotes) => {
            console::report("fatal", text!("not tracking: ambiguous information for ref '", start, "'"));
            if settings.advises(repo, "ambiguousFetchRefspec")? {
                let list: BString = remotes
                    .iter()
                    .flat_map(|name| text!("  ", name, "\n").to_vec())
                    .collect::<Vec<u8>>()
                    .into();
                console::hint(text!(
                    "There are multiple remotes whose fetch refspecs map to the remote\n\
                     tracking ref '",
                    start,
                    "':\n",
                    list,
                    "\n\
                     This is typically a configuration error.\n\
                     \n\
                     To support setting up tracking branches, ensure that\n\
                     different remotes' fetch refspecs map into different\n\
                     tracking namespaces."
                ));
            }
            return Err(Failure::Reported(128));
        }
    }
    Ok(())
}
