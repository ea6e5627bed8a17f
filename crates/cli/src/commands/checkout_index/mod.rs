//! `sapwood checkout-index`: entries of the index, of any stage, as files.
//!
//! Order: options; the index; paths, in the order of the arguments; files. A failure of one path
//! does not stop the others. An error that is fatal in Git does, but the paths before it are
//! written.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{
        Attributes, EntryOptions, EntryPlan, Force, Operation, StepError, Temporaries, Verdict, plan_entries,
    },
    files::whole,
    pathspec,
};
use repo::{Repository, convert::Delays, keys};
use sapwood::{
    Dir, FileType, UserPath,
    index::{Flags, Index, Stage},
};
use sys::by_path;

use crate::{
    commands::{
        obstacles::{GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, WRITING},
        record::{Command, Group},
        rules::When,
    },
    session::{
        Session,
        index::{Done, IndexTransaction, Recorded, Start},
        input::Input,
        invocation::Invocation,
        settings::Settings,
        sparse_index,
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Table,
        },
        console::{self, text},
        failure::{Failure, refused_with},
        notice,
        text::{quote, unquote},
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood checkout-index [<options>] [--] [<file>...]"],
    options: &[
        Opt::flag("-a, --all", "check out all files in the index", |request: &mut Request| &mut request.all)
            .native(Both),
        Opt::flag(
            "--ignore-skip-worktree-bits",
            "do not skip files with skip-worktree set",
            |request: &mut Request| &mut request.include_sparse,
        )
        .native(Both),
        Opt::flag("-f, --force", "force overwrite of existing files", |request: &mut Request| {
            &mut request.force
        })
        .native(Both),
        Opt::flag(
            "-q, --quiet",
            "no warning for existing files and files not in index",
            |request: &mut Request| &mut request.quiet,
        )
        .native(Both),
        Opt::flag("-n, --no-create", "don't checkout new files", |request: &mut Request| {
            &mut request.no_create
        })
        .native(Both),
        Opt::flag("-u, --index", "update stat information in the index file", |request: &mut Request| {
            &mut request.index
        })
        .native(Both),
        Opt::flag("-z", "paths are separated with NUL character", |request: &mut Request| &mut request.nul)
            .only()
            .native(On),
        Opt::flag("--stdin", "read list of paths from the standard input", |request: &mut Request| {
            &mut request.stdin
        })
        .native(Both),
        Opt::choice("--temp", "write the content to temporary files", |request: &mut Request| {
            &mut request.temp
        })
        .native(Both),
        Opt::new(
            "--prefix <string>",
            "when creating files, prepend <string>",
            |request: &mut Request, value| {
                request.prefix = value.text.unwrap_or_default();
                Ok(())
            },
        )
        .native(Both),
        Opt::new(
            "--stage <(1|2|3|all)>",
            "copy out the files from named stage",
            |request: &mut Request, value| {
                request.stages = stage_selection(value.text.unwrap_or_default().as_bstr())?;
                Ok(())
            },
        )
        .only()
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

/// The error of a directory that cannot be created because another file is in its place.
const EEXIST: i32 = 17;

/// The selected stages of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageSelection {
    One(Stage),
    /// All unmerged stages.
    All,
}

#[derive(Default)]
struct Request {
    all: bool,
    include_sparse: bool,
    force: bool,
    quiet: bool,
    no_create: bool,
    index: bool,
    nul: bool,
    stdin: bool,
    /// If unset, `--stage=all` implies it.
    temp: Option<bool>,
    prefix: BString,
    stages: StageSelection,
}

impl Default for StageSelection {
    fn default() -> StageSelection {
        StageSelection::One(Stage::Normal)
    }
}

/// The record of `checkout-index`.
pub(super) const COMMAND: Command = Command {
    name: "checkout-index",
    summary: "Write files of the index",
    about: "Copies files from the index into the worktree, or to another place with `--prefix`. It is for \
            scripts: `sapwood restore` is for people. Files are written in parallel.",
    group: Group::Scripts,
    syntax: &TABLE,
    // Git does not let a filter delay files here.
    settings: &[GENERAL, &[(keys::filter::PROCESS.name(), When::Not(&[""]))]],
    line: &[NO_ATTRIBUTES_IN_PATHSPECS],
    checks: &[WRITING],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = TABLE.parse(args)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let top = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let mut request = Request::default();
    let rest = parsed.store(&mut request)?;
    let temp = request.temp.unwrap_or(request.stages == StageSelection::All);
    if !temp && request.stages == StageSelection::All {
        return Err(Failure::fatal("options '--stage=all' and '--no-temp' cannot be used together"));
    }
    let noted = request.index && request.prefix.is_empty() && !temp;
    let mut transaction = if noted {
        Session { invocation: run, repository: &repo, settings: &settings }
            .start(Start::Sparse { dry_run: false })?
    } else {
        Session { invocation: run, repository: &repo, settings: &settings }.start(Start::Reading)?
    };
    transaction.policy.attributes = Attributes::OfWorktree;
    transaction.policy.delays = Delays::Refused;
    if !request.all || request.include_sparse {
        sparse_index::expand(&repo, &mut transaction.index)?;
    }
    let asked = request.asked(run, &repo, top, &mut transaction, rest)?;
    notice::print_object_store_errors(&repo);
    let code = if temp {
        temporary(&request, &repo, &settings, top, &transaction.index, asked)?
    } else {
        Checkout { request: &request, repo: &repo, top, records_stat: noted }
            .check_out(&mut transaction, asked)?
    };
    if code == 0 {
        transaction.finish(Recorded::Yes)?;
    }
    Ok(code)
}

/// The result for one requested path, in order.
enum RequestedPath {
    /// The selected entries of the path.
    Entries(Vec<usize>),
    /// No entry; the message is the reason.
    Skipped(BString),
    /// An error that is fatal in Git.
    Fatal(BString),
}

impl Request {
    /// Finds the requested entries, in the order in which Git does.
    fn asked(
        &self,
        run: &Invocation,
        repo: &Repository,
        top: &Path,
        transaction: &mut IndexTransaction<'_>,
        args: Vec<BString>,
    ) -> Result<Vec<RequestedPath>, Failure> {
        let mixed = |what: &str| RequestedPath::Fatal(text!("git checkout-index: don't mix ", what));
        let mut asked = Vec::new();
        if !args.is_empty() {
            if self.all {
                return Ok(vec![mixed("'--all' and explicit filenames")]);
            }
            if self.stdin {
                return Ok(vec![mixed("'--stdin' and explicit filenames")]);
            }
        }
        let mut ask = |asked: &mut Vec<RequestedPath>, path: &BStr| {
            let normal = pathspec::normalize(path, repo.prefix(), top.as_os_str().as_bytes().as_bstr());
            let Some(normal) = normal else {
                let top = top.as_os_str().as_bytes();
                asked.push(RequestedPath::Fatal(text!("'", path, "' is outside repository at '", top, "'")));
                return Ok(false);
            };
            transaction.looks_for(normal.as_bstr())?;
            asked.push(self.entries_of(
                &transaction.index,
                transaction.state.before.as_ref(),
                normal.as_bstr(),
            ));
            Ok::<bool, Failure>(true)
        };
        for arg in args {
            if !ask(&mut asked, arg.as_bstr())? {
                return Ok(asked);
            }
        }
        if self.stdin {
            if self.all {
                return Ok(vec![mixed("'--all' and '--stdin'")]);
            }
            // As in Git, a read error counts as the end of the input.
            let content = Input::new(run)?.all()?.unwrap_or_default();
            let end = if self.nul { b'\0' } else { b'\n' };
            let content = content.strip_suffix(&[end]).unwrap_or(&content);
            let lines = content.split(|&byte| byte == end).skip(usize::from(content.is_empty()));
            for line in lines {
                let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
                let path = match line.first() {
                    Some(b'"') if !self.nul => match unquote(line) {
                        Some((path, _)) => path,
                        None => {
                            asked.push(RequestedPath::Fatal("line is badly quoted".into()));
                            return Ok(asked);
                        }
                    },
                    _ => line.into(),
                };
                if !ask(&mut asked, path.as_bstr())? {
                    return Ok(asked);
                }
            }
        }
        if self.all {
            if self.include_sparse {
                transaction.needs_full()?;
            }
            self.everything(repo, &transaction.index, &mut asked);
        }
        Ok(asked)
    }

    fn is_meant(&self, stage: Stage) -> bool {
        match self.stages {
            StageSelection::One(one) => stage == one,
            StageSelection::All => stage != Stage::Normal,
        }
    }

    /// Returns the entries of `path`. `before` is the sparse index that was read.
    fn entries_of(&self, index: &Index, before: Option<&Index>, path: &BStr) -> RequestedPath {
        let of_path = index.range_of(path);
        if before.is_some_and(|before| before.position(path, Stage::Normal).is_ok()) && of_path.is_empty() {
            return match self.stages {
                StageSelection::All => RequestedPath::Entries(Vec::new()),
                StageSelection::One(_) => {
                    RequestedPath::Skipped(text!("git checkout-index: ", path, " is a sparse directory"))
                }
            };
        }
        let is_sparse =
            |at: usize| !self.include_sparse && index.entries()[at].flags.contains(Flags::SKIP_WORKTREE);
        let looked_at = of_path.clone().take_while(|&at| !is_sparse(at));
        let seen = looked_at.clone().count();
        let entries: Vec<usize> = looked_at.filter(|&at| self.is_meant(index.entries()[at].stage)).collect();
        if !entries.is_empty() || (!of_path.is_empty() && self.stages == StageSelection::All) {
            return RequestedPath::Entries(entries);
        }
        let why = match self.stages {
            _ if of_path.is_empty() => "is not in the cache".to_owned(),
            _ if seen == 0 => {
                "has skip-worktree enabled; use '--ignore-skip-worktree-bits' to checkout".to_owned()
            }
            StageSelection::One(Stage::Normal) => "is unmerged".to_owned(),
            StageSelection::One(stage) => format!("does not exist at stage {}", stage as u8),
            StageSelection::All => unreachable!("what has any entry has been found"),
        };
        RequestedPath::Skipped(text!("git checkout-index: ", path, " ", why))
    }

    /// `-a`: selects all entries below the current directory, with the entries of a path in one
    /// group.
    fn everything(&self, repo: &Repository, index: &Index, asked: &mut Vec<RequestedPath>) {
        let prefix = repo.prefix();
        let mut last: Option<&BStr> = None;
        for at in index.range_below(prefix.strip_suffix(b"/").unwrap_or(prefix).as_bstr()) {
            let entry = &index.entries()[at];
            let is_sparse = !self.include_sparse && entry.flags.contains(Flags::SKIP_WORKTREE);
            if is_sparse || !self.is_meant(entry.stage) {
                continue;
            }
            let path = index.path(entry);
            match asked.last_mut() {
                Some(RequestedPath::Entries(entries)) if last == Some(path) => entries.push(at),
                _ => asked.push(RequestedPath::Entries(vec![at])),
            }
            last = Some(path);
        }
    }

    fn print_unless_quiet(&self, message: &BString) {
        if !self.quiet {
            console::eprint_line(message);
        }
    }
}

fn stage_selection(stage: &BStr) -> Result<StageSelection, Failure> {
    match stage.as_bytes() {
        b"all" => Ok(StageSelection::All),
        [b'1', ..] => Ok(StageSelection::One(Stage::Base)),
        [b'2', ..] => Ok(StageSelection::One(Stage::Ours)),
        [b'3', ..] => Ok(StageSelection::One(Stage::Theirs)),
        _ => Err(Failure::fatal("stage should be between 1 and 3 or all")),
    }
}

struct Checkout<'a> {
    request: &'a Request,
    repo: &'a Repository,
    top: &'a Path,
    records_stat: bool,
}

impl Checkout<'_> {
    /// Writes files. Returns the exit code.
    fn check_out(
        &self,
        transaction: &mut IndexTransaction<'_>,
        asked: Vec<RequestedPath>,
    ) -> Result<u8, Failure> {
        let request = self.request;
        let (place, lead) = self.place();
        let shown_place = place;
        let place = self.below(place)?;
        let elsewhere = if shown_place.is_empty() {
            None
        } else {
            // If the directory cannot be opened, it has to be created.
            Dir::open(&place).ok()
        };
        let missing = !shown_place.is_empty() && elsewhere.is_none();
        let chosen: Vec<usize> = asked.iter().flat_map(RequestedPath::entries).copied().collect();
        let made;
        let elsewhere = match elsewhere {
            None if missing && !chosen.is_empty() && !request.no_create => {
                self.make_place()?;
                made = Dir::open(&place).map_err(|error| self.no_directory(shown_place, &error))?;
                Some(made)
            }
            None if missing => return self.report(&transaction.index, asked, &[]),
            elsewhere => elsewhere,
        };
        let options = EntryOptions {
            elsewhere: elsewhere.as_ref(),
            lead,
            force: if request.force { Force::OverwriteUntracked } else { Force::No },
            create: !request.no_create,
            records_stat: self.records_stat,
        };
        let index = std::mem::replace(&mut transaction.index, Index::empty(self.repo.hash()));
        let planned = plan_entries(self.repo, transaction.worktree(), index, &chosen, &options)
            .map_err(|error| refused_with(1)(transaction.explain(error.into(), Operation::Plumbing)))?;
        let EntryPlan { plan, verdicts } = planned;
        let reported = self.report(&plan.index, asked, &verdicts);
        if !request.prefix.is_empty() {
            transaction.redirect(elsewhere.map(|dir| (place, dir)), &request.prefix, lead);
        }
        let done = transaction.carry_out(plan)?;
        // The paths before a fatal error were written; now the error is returned.
        let code = reported?;
        Ok(if done == Done::Incomplete { 1 } else { code })
    }

    /// Prints the messages in order. `verdicts` are those of the entries; empty if no entry was
    /// written.
    fn report(&self, index: &Index, asked: Vec<RequestedPath>, verdicts: &[Verdict]) -> Result<u8, Failure> {
        let mut verdicts = verdicts.iter();
        let mut code = 0;
        for asked in asked {
            match asked {
                RequestedPath::Fatal(message) => return Err(Failure::Fatal(message)),
                RequestedPath::Skipped(message) => {
                    self.request.print_unless_quiet(&message);
                    code = 1;
                }
                RequestedPath::Entries(entries) => {
                    for (at, verdict) in entries.into_iter().zip(&mut verdicts) {
                        let path = index.path_at(at);
                        match *verdict {
                            Verdict::Written | Verdict::Kept => {}
                            Verdict::Exists => {
                                let shown = text!(self.request.prefix, path);
                                self.request
                                    .print_unless_quiet(&text!(shown, " already exists, no checkout"));
                                code = 1;
                            }
                            Verdict::Blocked(len) => {
                                let (place, lead) = self.place();
                                let path = text!(lead, path);
                                let exists = std::io::Error::from_raw_os_error(EEXIST);
                                return Err(self.no_directory(text!(place, path[..len]), &exists));
                            }
                        }
                    }
                }
            }
        }
        Ok(code)
    }

    /// Splits the prefix into a directory, and the beginning of the file names in it.
    fn place(&self) -> (&[u8], &[u8]) {
        let prefix = self.request.prefix.as_slice();
        prefix.split_at(prefix.rfind_byte(b'/').map_or(0, |slash| slash + 1))
    }

    /// Resolves a part of the prefix against the worktree's root; an empty part is the root.
    fn below(&self, part: &[u8]) -> Result<PathBuf, Failure> {
        let path = UserPath::new(part);
        path.resolve_or_base(self.top).map_err(|refused| Failure::refused(&path, refused))
    }

    /// Creates the directories of the prefix. Symlinks to directories in it are followed.
    fn make_place(&self) -> Result<(), Failure> {
        let prefix = &self.request.prefix;
        let ends = prefix.find_iter("/").filter(|&end| end > 0);
        for end in ends {
            let shown = &prefix[..end];
            let path = self.below(shown)?;
            let is_directory = |stat: &sys::Stat| stat.file_type == FileType::Directory;
            if matches!(by_path::stat_followed(&path), Ok(Some(stat)) if is_directory(&stat)) {
                continue;
            }
            whole::create_dir(self.repo, &path, self.request.force).map_err(|error| match error {
                whole::DirError::Guard(error) => error.into(),
                whole::DirError::Io(error) => self.no_directory(shown, &error),
            })?;
        }
        Ok(())
    }

    fn no_directory(&self, shown: impl AsRef<[u8]>, error: &std::io::Error) -> Failure {
        Failure::Fatal(text!(
            "cannot create directory at '",
            shown,
            "': ",
            crate::term::text::os_error(error)
        ))
    }
}

impl RequestedPath {
    fn entries(&self) -> &[usize] {
        match self {
            RequestedPath::Entries(entries) => entries,
            RequestedPath::Skipped(_) | RequestedPath::Fatal(_) => &[],
        }
    }
}

/// `--temp`: writes temporary files, and prints each file's name with its path.
fn temporary(
    request: &Request,
    repo: &Repository,
    settings: &Settings,
    top: &Path,
    index: &Index,
    asked: Vec<RequestedPath>,
) -> Result<u8, Failure> {
    let mut temporaries = Temporaries::new(repo, index, top)?;
    let mut code = 0;
    for asked in asked {
        let entries = match asked {
            RequestedPath::Fatal(message) => return Err(Failure::Fatal(message)),
            RequestedPath::Skipped(message) => {
                request.print_unless_quiet(&message);
                code = 1;
                continue;
            }
            RequestedPath::Entries(entries) => entries,
        };
        let mut names: [Option<BString>; 4] = Default::default();
        for &at in &entries {
            let entry = &index.entries()[at];
            let path = index.path(entry);
            let written = if entry.mode.is_gitlink() {
                Err(text!("cannot create temporary submodule ", path))
            } else {
                temporaries.write(path, entry).map_err(|error| match error {
                    StepError::Io { .. } => error.message(".merge_file_XXXXXX".into()).into(),
                    error => error.message(path).into(),
                })
            };
            for message in temporaries.take_messages() {
                console::eprint_raw(format!("{message}\n").as_bytes());
            }
            match written {
                Ok(name) => names[entry.stage as usize] = Some(name),
                Err(message) => {
                    console::error(message);
                    code = 1;
                }
            }
        }
        let Some(&at) = entries.first() else { continue };
        if names.iter().all(Option::is_none) {
            continue;
        }
        let shown = match request.stages {
            StageSelection::All => {
                let of_stages = names[1..].iter().map(|name| name.as_ref().map_or(&b"."[..], |name| name));
                bstr::join(" ", of_stages).into()
            }
            StageSelection::One(stage) => names[stage as usize].take().unwrap_or_default(),
        };
        let path = relative(index.path_at(at), repo.prefix());
        if request.nul {
            console::out_raw(&text!(shown, "\t", path, "\0"))
        } else {
            console::out(text!(shown, "\t", quote(path.as_bstr(), settings.quote_path)))
        }
    }
    Ok(code)
}

/// Returns `path` relative to the directory `prefix`, which ends in a slash or is empty.
fn relative(path: &BStr, prefix: &BStr) -> BString {
    let shared = path.iter().zip(prefix.iter()).take_while(|(one, other)| one == other).count();
    let shared = path[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1);
    let up = prefix[shared..].iter().filter(|&&byte| byte == b'/').count();
    text!("../".repeat(up), path[shared..])
}
