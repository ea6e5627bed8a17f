//! `sapwood checkout-index`: entries of the index, of any stage, as files. See
//! [`sapwood::checkout_index`].

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{
    checkout_index::{self, Found, Options, Stages, Temporary},
    index::Stage,
};

use crate::{
    commands::{
        obstacles::{GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, WRITING},
        paths,
        record::{Command, Group},
        rules::When,
    },
    session::{
        Session,
        index::{IndexTransaction, Recorded},
        input::Input,
        invocation::Invocation,
        settings::Settings,
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Table},
        console::{self, text},
        failure::{Failure, refused_with},
        notice,
        text::{quote, relative::relative, unquote},
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood checkout-index [<options>] [--] [<file>...]"],
    options: &[
        Opt::flag("-a, --all", "check out all files in the index", field!(all)).native(Both),
        Opt::flag(
            "--ignore-skip-worktree-bits",
            "do not skip files with skip-worktree set",
            field!(include_sparse),
        )
        .native(Both),
        Opt::flag("-f, --force", "force overwrite of existing files", field!(force)).native(Both),
        Opt::flag("-q, --quiet", "no warning for existing files and files not in index", field!(quiet))
            .native(Both),
        Opt::flag("-n, --no-create", "don't checkout new files", field!(no_create)).native(Both),
        Opt::flag("-u, --index", "update stat information in the index file", field!(index)).native(Both),
        Opt::flag("-z", "paths are separated with NUL character", field!(nul)).only().native(On),
        Opt::flag("--stdin", "read list of paths from the standard input", field!(stdin)).native(Both),
        Opt::choice("--temp", "write the content to temporary files", field!(temp)).native(Both),
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
                request.stages = Some(stage_selection(value.text.unwrap_or_default().as_bstr())?);
                Ok(())
            },
        )
        .only()
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

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
    stages: Option<Stages>,
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
    repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let mut request = Request::default();
    let rest = parsed.store(&mut request)?;
    let stages = request.stages.unwrap_or(Stages::One(Stage::Normal));
    let temp = request.temp.unwrap_or(stages == Stages::All);
    if !temp && stages == Stages::All {
        return Err(Failure::fatal("options '--stage=all' and '--no-temp' cannot be used together"));
    }
    let options = Options {
        stages,
        include_sparse: request.include_sparse,
        force: request.force,
        create: !request.no_create,
        quiet: request.quiet,
        records_stat: request.index && request.prefix.is_empty() && !temp,
        prefix: request.prefix.clone(),
    };
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let mut transaction = session.start(options.start())?;
    checkout_index::prepare(&mut transaction, &options, request.all)?;
    let found = request.find(run, &repo, &options, &mut transaction, rest)?;
    notice::print_object_store_errors(&repo);
    let is_complete = if temp {
        let mut print = |file| request.print(&repo, &settings, stages, file);
        checkout_index::temporary(&transaction, &options, found, &mut print)?
    } else {
        checkout_index::check_out(&mut transaction, &options, found).map_err(refused_with(1))?
    };
    if is_complete {
        transaction.finish(Recorded::Yes)?;
    }
    Ok(u8::from(!is_complete))
}

impl Request {
    /// Finds the requested entries, in the order in which Git does.
    fn find(
        &self,
        run: &Invocation,
        repo: &Repository,
        options: &Options,
        transaction: &mut IndexTransaction<'_>,
        args: Vec<BString>,
    ) -> Result<Vec<Found>, Failure> {
        let mixed = |what: &str| Ok(vec![Found::Fatal(text!("git checkout-index: don't mix ", what))]);
        let mut found = Vec::new();
        if !args.is_empty() {
            if self.all {
                return mixed("'--all' and explicit filenames");
            }
            if self.stdin {
                return mixed("'--stdin' and explicit filenames");
            }
        }
        let mut find = |found: &mut Vec<Found>, path: &BStr| {
            let is_inside = match paths::from_top(repo, path) {
                Ok(path) => {
                    found.push(checkout_index::find(transaction, options, path.as_bstr())?);
                    true
                }
                Err(outside) => {
                    found.push(Found::Fatal(outside));
                    false
                }
            };
            Ok::<bool, Failure>(is_inside)
        };
        for arg in args {
            if !find(&mut found, arg.as_bstr())? {
                return Ok(found);
            }
        }
        if self.stdin {
            if self.all {
                return mixed("'--all' and '--stdin'");
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
                            found.push(Found::Fatal("line is badly quoted".into()));
                            return Ok(found);
                        }
                    },
                    _ => line.into(),
                };
                if !find(&mut found, path.as_bstr())? {
                    return Ok(found);
                }
            }
        }
        if self.all {
            checkout_index::find_all(transaction, options, repo.prefix(), &mut found)?;
        }
        Ok(found)
    }

    /// Prints the names of temporary files with their path.
    fn print(&self, repo: &Repository, settings: &Settings, stages: Stages, file: Temporary) {
        let mut names = file.names;
        let shown = match stages {
            Stages::All => {
                let of_stages = names[1..].iter().map(|name| name.as_ref().map_or(&b"."[..], |name| name));
                bstr::join(" ", of_stages).into()
            }
            Stages::One(stage) => names[stage as usize].take().unwrap_or_default(),
        };
        let path = relative(file.path.as_bstr(), repo.prefix());
        if self.nul {
            console::out_raw(&text!(shown, "\t", path, "\0"))
        } else {
            console::out(text!(shown, "\t", quote(path.as_bstr(), settings.quote_path)))
        }
    }
}

fn stage_selection(stage: &BStr) -> Result<Stages, Failure> {
    match stage.as_bytes() {
        b"all" => Ok(Stages::All),
        [b'1', ..] => Ok(Stages::One(Stage::Base)),
        [b'2', ..] => Ok(Stages::One(Stage::Ours)),
        [b'3', ..] => Ok(Stages::One(Stage::Theirs)),
        _ => Err(Failure::fatal("stage should be between 1 and 3 or all")),
    }
}
