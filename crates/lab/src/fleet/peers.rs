//! The ways in which a host gets its first worktree, and the files of the next commit.
//!
//! Each way is a shell script. It ends with a `git status` that finds nothing.

use std::path::Path;

use testkit::servers::S3;

use crate::{Error, measure::must};

/// The repository on the server, and what is made from it for the ways that need more.
pub(super) const REPOSITORY: &str = "tree.git";
pub(super) const BUNDLE: &str = "tree.bundle";

/// A way to a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// `git clone`
    Clone,
    /// `git clone --depth 1`
    Shallow,
    /// `git clone` with a bundle of the first commit.
    Bundle,
    /// `git clone --reference` with a mirror that lies on the host already.
    Mirror,
    /// A compressed archive of a worktree of depth 1, from an object store.
    Tar,
    /// A base from an object store.
    Store,
    /// A base from a registry.
    Registry,
    /// A base in a directory that all hosts see.
    Directory,
}

/// A way with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) peer: Peer,
    /// `checkout.workers`, for ways with Git.
    pub(super) workers: Option<usize>,
}

impl Way {
    /// Returns the name in reports.
    pub(super) fn name(self) -> String {
        match self.workers {
            Some(workers) => format!("{}, checkout.workers={workers}", self.peer.name()),
            None => self.peer.name().to_owned(),
        }
    }

    /// Returns the script that runs on the host, on its disk. It knows the addresses `$GIT_SERVER`,
    /// `$AWS_ENDPOINT_URL`, `$WEB_SERVER` and `$REGISTRY`, the directory `$ROOT` and the commit
    /// `$COMMIT`.
    pub(super) fn script(self, moment: Moment) -> String {
        let setting = self.workers.map_or_else(String::new, |workers| {
            // The environment of measured programs has one setting already.
            format!(
                "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_1=checkout.workers GIT_CONFIG_VALUE_1={workers} && "
            )
        });
        let body = match self.peer.remote() {
            Some(remote) => by_base(remote, moment),
            None => self.peer.by_git(moment),
        };
        format!("{setting}{body} && {CLEAN} && test \"$(git rev-parse HEAD)\" = $COMMIT")
    }
}

/// The moment that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    First,
    Next,
}

impl Moment {
    pub(super) const ALL: [Moment; 2] = [Moment::First, Moment::Next];

    pub(super) fn name(self) -> &'static str {
        match self {
            Moment::First => "first",
            Moment::Next => "next",
        }
    }
}

/// The end of each script.
const CLEAN: &str = "test -z \"$(git status --porcelain)\"";

/// `curl` with the key of the object store.
const CURL: &str = "curl -sf --aws-sigv4 aws:amz:$AWS_REGION:s3 \
                    --user $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY \
                    -H x-amz-content-sha256:UNSIGNED-PAYLOAD";

/// Makes a clone in `job` the newest commit's.
const UPDATE: &str = "cd job && git fetch -q origin main && git checkout -q --detach FETCH_HEAD";

impl Peer {
    pub(super) const ALL: [Peer; 8] = [
        Peer::Clone,
        Peer::Shallow,
        Peer::Bundle,
        Peer::Mirror,
        Peer::Tar,
        Peer::Store,
        Peer::Registry,
        Peer::Directory,
    ];

    /// Returns the name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Clone => "git clone",
            Peer::Shallow => "git clone --depth 1",
            Peer::Bundle => "git clone --bundle-uri",
            Peer::Mirror => "git clone --reference",
            Peer::Tar => "tar.zst",
            Peer::Store => "sapwood, S3",
            Peer::Registry => "sapwood, registry",
            Peer::Directory => "sapwood, shared directory",
        }
    }

    /// Returns true if Git writes the worktree.
    pub(super) fn is_checkout_by_git(self) -> bool {
        matches!(self, Peer::Clone | Peer::Shallow | Peer::Bundle | Peer::Mirror)
    }

    /// Returns the remote of bases, with the shell variables of the host.
    fn remote(self) -> Option<&'static str> {
        match self {
            Peer::Store => Some("s3://bases/tree"),
            Peer::Registry => Some("oci+http://$REGISTRY/bases/tree"),
            Peer::Directory => Some("file://$ROOT/bases"),
            Peer::Clone | Peer::Shallow | Peer::Bundle | Peer::Mirror | Peer::Tar => None,
        }
    }

    fn by_git(self, moment: Moment) -> String {
        let clone = |options: &str| format!("git clone -q {options} $GIT_SERVER/{REPOSITORY} job && cd job");
        match (self, moment) {
            (Peer::Clone, Moment::First) => clone(""),
            (Peer::Shallow, Moment::First) => clone("--depth 1"),
            (Peer::Bundle, Moment::First) => clone(&format!("--bundle-uri=$WEB_SERVER/{BUNDLE}")),
            (Peer::Mirror, Moment::First) => clone("--reference \"$PWD/mirror.git\""),
            (Peer::Tar, moment) => {
                let dir = moment.name();
                format!(
                    "mkdir {dir} && cd {dir} && \
                     {CURL} {} | zstd -dqc | tar -x && cd job",
                    archive_url(moment)
                )
            }
            (Peer::Shallow, Moment::Next) => UPDATE.replace("fetch -q", "fetch -q --depth 1"),
            (Peer::Mirror, Moment::Next) => {
                format!("git -C mirror.git fetch -q $GIT_SERVER/{REPOSITORY} main && {UPDATE}")
            }
            _ => UPDATE.to_owned(),
        }
    }

    /// Prepares the server. `root` is its directory; `main` is at the commit of the moment, and
    /// `variables` assigns the shell variables of a host.
    pub(super) fn prepare_server(self, root: &Path, moment: Moment, variables: &str) -> Result<(), Error> {
        let sh =
            |script: &str| must(Path::new("sh"), &["-ec", &format!("{variables}{script}")], root).map(drop);
        if let Some(remote) = self.remote() {
            let push = format!("sapwood -C {REPOSITORY} base push -q --branch main {remote} main");
            return sh(&format!("mkdir -p bases && {push}"));
        }
        let (file, make) = match (self, moment) {
            (Peer::Bundle, Moment::First) => {
                (BUNDLE.to_owned(), format!("git -C {REPOSITORY} bundle create -q ../made main"))
            }
            (Peer::Tar, moment) => {
                let clone = format!("git clone -q --depth 1 file://$PWD/{REPOSITORY} job");
                let archive = "tar -c job | zstd -q -f -T0 -o made";
                (archive_name(moment), format!("rm -rf job && {clone} && {archive} && rm -rf job"))
            }
            _ => return Ok(()),
        };
        // The commits of a moment never change.
        sh(&format!("test -e {file} || {{ {make} && mv made {file}; }}"))?;
        if self == Peer::Tar {
            sh(&format!("{CURL} -T {} {}", archive_name(moment), archive_url(moment)))?;
        }
        Ok(())
    }

    /// Prepares a host with the empty disk `disk`.
    pub(super) fn prepare_host(self, root: &Path, disk: &Path) -> Result<(), Error> {
        if self != Peer::Mirror {
            return Ok(());
        }
        let from = format!("file://{}", root.join(REPOSITORY).display());
        must(Path::new("git"), &["clone", "-q", "--mirror", &from, "mirror.git"], disk).map(drop)
    }
}

/// A job in a workspace of its own. The first one makes the repository too. The scheduler tells the
/// second one its commit, so it asks no Git server.
fn by_base(remote: &str, moment: Moment) -> String {
    match moment {
        Moment::First => {
            format!("sapwood clone -q --base {remote} --workspace $GIT_SERVER/{REPOSITORY} job && cd job")
        }
        Moment::Next => format!(
            "sapwood -C job.git base pull -q {remote} $COMMIT && \
             sapwood -C job.git workspace create -q -d --dir \"$PWD/next\" next $COMMIT && cd next"
        ),
    }
}

fn archive_name(moment: Moment) -> String {
    format!("{}.tar.zst", moment.name())
}

fn archive_url(moment: Moment) -> String {
    format!("$AWS_ENDPOINT_URL/{}/{}", S3::BUCKET, archive_name(moment))
}
