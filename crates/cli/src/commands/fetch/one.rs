//! The fetch from one remote.

use bstr::{BString, ByteSlice as _};
use engine::fetch::{self, Context, FetchHeadPolicy, Options, map::Tags, refspec::Refspec, remote::Remote};
use format::ObjectId;
use repo::{
    Repository,
    indexing::Meter,
    wire::{AddressFamily, Client, ConnectOptions, Limits},
};

use super::{
    context::FetchContext,
    options::leading_number,
    remote_selection::Words,
    report::{self, Reporter},
};
use crate::{
    session::{
        hooks,
        invocation::Program,
        packets,
        receiving::{self, Display},
    },
    term::{console, failure::Failure, progress},
};

/// The depth that stands for the whole history.
const WHOLE: u32 = 0x7fff_ffff;

/// Git's exit code (-1) if a server does not support negotiation without a fetch.
const NOT_NEGOTIATED: u8 = 255;

impl FetchContext<'_> {
    /// Fetches from the remote `name`. Returns the exit code.
    pub(super) fn one(&self, name: &BString, words: &Words) -> Result<u8, Failure> {
        if self.become_partial(name)? {
            // The repository is a partial clone from now on.
            let repo = self.repo.open_again()?;
            let action = self.action.clone();
            return FetchContext { repo: &repo, action, ..*self }.fetch_one(name, words);
        }
        self.fetch_one(name, words)
    }

    fn fetch_one(&self, name: &BString, words: &Words) -> Result<u8, Failure> {
        let mut remote = Remote::load(self.repo, name.as_bstr()).map_err(report::of_remote)?;
        check_passwords(self.repo, &remote)?;
        let options = self.options(&mut remote, words)?;
        let before = self.before()?;
        let done = self.with_context(&remote, |context, reporter| {
            let done = fetch::run(context, &remote, &options);
            reporter.finish();
            let done = done.map_err(|error| report::failure(self.run, error))?;
            if self.request.set_upstream && !done.failed_early && done.failed_transaction.is_none() {
                self.set_upstream(&remote, &done)?;
            }
            reporter.table(&done)?;
            match &done.failed_transaction {
                Some(failed) => Err(Failure::Error(failed.message.clone().into(), failed.code)),
                None => Ok(done),
            }
        })?;
        match done.has_failures {
            true => Ok(1),
            false => self.submodules(before, &done),
        }
    }

    /// Fetches missing objects of a partial clone.
    pub(super) fn promised(&self, remote: &Remote, objects: &[ObjectId]) -> Result<(), Failure> {
        let options = Options {
            connect: self.connect(remote),
            progress: self.shows_progress(),
            quiet: self.request.verbosity < 0,
            keeps_partial: self.is_part_of_a_resumable_clone(),
            ..Options::default()
        };
        self.with_context(remote, |context, reporter| {
            let done = fetch::promised(context, remote, objects, &options);
            reporter.finish();
            done.map_err(|error| report::failure(self.run, error))
        })
    }

    /// Returns true if the same clone command can resume this fetch after an interruption.
    fn is_part_of_a_resumable_clone(&self) -> bool {
        let is_off = matches!(self.repo.config_bool("sapwood.resumableClone"), Ok(Some(false)));
        self.run.program == Program::Sapwood && !is_off && engine::clone::is_ours(self.repo.git_dir())
    }

    /// `--negotiate-only`: prints the common commits.
    pub(super) fn negotiate_only(&self, name: &BString) -> Result<u8, Failure> {
        let remote = Remote::load(self.repo, name.as_bstr()).map_err(report::of_remote)?;
        let negotiation_tips = self.negotiation_tips(&remote)?;
        if negotiation_tips.is_none() {
            let message = "--negotiate-only needs one or more --negotiation-restrict=*";
            return Err(Failure::fatal(message));
        }
        let options = Options {
            connect: self.connect(&remote),
            negotiation_tips,
            negotiation_include: self.negotiation_include(&remote)?,
            ..Options::default()
        };
        self.with_context(&remote, |context, _| match fetch::negotiate_only(context, &remote, &options) {
            Ok(common) => {
                common.iter().for_each(|oid| console::out(oid.to_string()));
                Ok(0)
            }
            Err(error @ (fetch::Error::NegotiationVersion | fetch::Error::NoWaitForDone)) => {
                console::warning(error.to_string());
                Err(Failure::Reported(NOT_NEGOTIATED))
            }
            Err(error) => Err(report::failure(self.run, error)),
        })
    }

    /// Runs a part of a fetch, and displays its progress.
    pub(super) fn with_context<T>(
        &self,
        remote: &Remote,
        work: impl FnOnce(Context<'_>, &Reporter<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let FetchContext { run, repo, settings, .. } = self;
        let refs = settings.refs_with_hook(repo)?;
        let meter = Meter::default();
        let receiving = Display::new(receiving::Form::of_fetch(self.shows_progress()), &meter);
        let reporter = Reporter::new(self, remote, self.form, &receiving);
        let hook = |stage: store::refs::Stage, lines: &[u8]| {
            let code = hooks::reference_transaction(repo, settings, &stage.to_string(), lines);
            code.is_ok_and(|code| code == 0)
        };
        let has_hook = hooks::has_reference_transaction(repo, settings)?;
        let context = Context {
            repo,
            refs: &refs,
            fsync: &settings.fsync,
            locks: &settings.locks,
            interrupt: run.interrupt.flag(),
            meter: &meter,
            hook: has_hook.then_some(&hook as _),
            workers: settings.workers,
            events: &|event| reporter.event(event),
        };
        receiving.during(|| work(context, &reporter))
    }

    pub(super) fn shows_progress(&self) -> bool {
        let request = self.request;
        request.progress.unwrap_or(request.verbosity >= 0 && progress::has_terminal())
    }

    fn options(&self, remote: &mut Remote, words: &Words) -> Result<Options, Failure> {
        let FetchContext { repo, request, .. } = self;
        let parse = |texts: &[BString]| -> Result<Vec<Refspec>, Failure> {
            let parsed = texts.iter().map(|text| Refspec::parse(text.as_bstr(), repo.hash()));
            parsed.collect::<Result<_, _>>().map_err(|error| Failure::fatal(error.to_string()))
        };
        let mut refspecs = parse(&words.refspecs)?;
        let choose = |given: Option<bool>, of_remote: Option<bool>, key: &str| -> Result<bool, Failure> {
            Ok(match given.or(of_remote) {
                Some(chosen) => chosen,
                None => repo.config_bool(key)?.unwrap_or(false),
            })
        };
        let prune = choose(request.prune, remote.prune, "fetch.prune")?;
        if choose(request.prune_tags, remote.prune_tags, "fetch.pruneTags")? && words.may_prune_tags {
            match remote.is_configured {
                true => remote.refspecs.push(Refspec::all_tags()),
                false => refspecs.insert(0, Refspec::all_tags()),
            }
        }
        let refmap = request.refmap.as_ref().map(|texts| parse(texts)).transpose()?;
        let shows_forced = match request.forced_updates {
            Some(shows) => shows,
            None => repo.config_bool("fetch.showForcedUpdates")?.unwrap_or(true),
        };
        Ok(Options {
            refspecs,
            refmap,
            tags: request.tags.map(|all| if all { Tags::All } else { Tags::None }),
            prune,
            prefetch: request.prefetch,
            force: request.force,
            atomic: request.atomic,
            dry_run: request.dry_run,
            keep: request.keep,
            update_head_ok: request.update_head_ok,
            update_shallow: request.update_shallow,
            refetch: request.refetch,
            skips_forced_check: !shows_forced,
            advises_forced_check: self.settings.advises(repo, "fetchShowForcedUpdates")?,
            fetch_head: match (request.leaves_fetch_head, request.append) {
                (true, _) => FetchHeadPolicy::Leave,
                (false, true) => FetchHeadPolicy::Append,
                (false, false) => FetchHeadPolicy::Replace,
            },
            limits: self.limits(&remote.name)?,
            negotiation_tips: self.negotiation_tips(remote)?,
            negotiation_include: self.negotiation_include(remote)?,
            action: self.action.clone(),
            connect: self.connect(remote),
            progress: self.shows_progress(),
            quiet: request.verbosity < 0,
            keeps_partial: false,
        })
    }

    pub(super) fn connect(&self, remote: &Remote) -> ConnectOptions {
        let request = self.request;
        ConnectOptions {
            program: request.upload_pack.clone(),
            server_options: request.server_options.clone(),
            configured_server_options: Vec::new(),
            family: match (request.ipv4, request.ipv6) {
                (_, true) => AddressFamily::V6,
                (true, false) => AddressFamily::V4,
                (false, false) => AddressFamily::Any,
            },
            version: None,
            progress: self.shows_progress(),
            verbosity: request.verbosity,
            tracer: packets::tracer(self.run).map(|tracer| tracer.0),
            interrupt: Some(self.run.interrupt.shared()),
            remote: remote.is_configured.then(|| remote.name.clone()),
            voice: (request.verbosity > 0).then_some(console::eprint),
        }
    }

    fn limits(&self, remote: &BString) -> Result<Limits, Failure> {
        let request = self.request;
        let number = |number: i64| u32::try_from(number).unwrap_or(WHOLE);
        let depth = match (&request.depth, request.deepen) {
            _ if request.unshallow => Some(WHOLE),
            (Some(depth), _) => Some(number(leading_number(depth))),
            (None, Some(deepen)) => Some(number(deepen.into())),
            (None, None) => None,
        };
        Ok(Limits {
            depth,
            relative: request.deepen.is_some(),
            since: request.shallow_since.as_ref().map(|text| repo::parse_moment(text.as_bstr())),
            exclude: request.shallow_exclude.clone(),
            filter: self.filter(remote),
        })
    }
}

/// Warns of a password in a URL of the remote, or refuses it (`transfer.credentialsInUrl`).
fn check_passwords(repo: &Repository, remote: &Remote) -> Result<(), Failure> {
    let client = Client::of(repo);
    for url in &remote.urls {
        let warning = client.check_password(&client.url(url.as_bstr()));
        warning.map_err(|error| Failure::fatal(error.to_string()))?.iter().for_each(console::warning);
    }
    Ok(())
}
