//! The fetch from one remote.

use bstr::{BString, ByteSlice as _};
use engine::fetch::{self, Context, Options, remote::Remote};
use repo::keys;
use sapwood::{
    ObjectId,
    fetch::{self as library, AddressFamily, ConnectOptions, FetchHeadPolicy, Limits, Meter, Offered, Tags},
};

use super::{
    context::FetchContext,
    options::leading_number,
    remote_selection::Words,
    report::{self, Reporter},
};
use crate::{
    session::{
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
        let filter = self.request.filter.as_ref().filter(|_| !self.request.no_filter);
        if library::become_partial(self.library(), name, filter)? {
            // The repository is a partial clone from now on.
            let repo = self.repo.open_again()?;
            let action = self.action.clone();
            return FetchContext { repo: &repo, action, ..*self }.fetch_one(name, words);
        }
        self.fetch_one(name, words)
    }

    fn fetch_one(&self, name: &BString, words: &Words) -> Result<u8, Failure> {
        let remote = library::remote(self.library(), name.as_bstr())?;
        let prepared = library::prepare(self.library(), remote, &self.wanted(words)?)?;
        let before = self.before()?;
        let done = self.with_context(&prepared.remote, |context, reporter| {
            let done = prepared.run(context);
            reporter.finish();
            let done = done.map_err(|error| report::failure(self.run, error))?;
            if self.request.set_upstream && !done.failed_early && done.failed_transaction.is_none() {
                library::set_upstream(self.library(), &prepared.remote, &done)?;
            }
            reporter.table(&done)?;
            match &done.failed_transaction {
                Some(failed) => Err(Failure::Error(failed.message.clone().into(), failed.code)),
                None => Ok(done),
            }
        })?;
        if done.has_failures { Ok(1) } else { self.submodules(before, &done) }
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
        let is_off = matches!(self.repo.config(&keys::sapwood::RESUMABLE_CLONE), Ok(Some(false)));
        self.run.program == Program::Sapwood && !is_off && engine::clone::is_ours(self.repo.git_dir())
    }

    /// `--negotiate-only`: prints the common commits.
    pub(super) fn negotiate_only(&self, name: &BString) -> Result<u8, Failure> {
        let remote = library::load(self.repo, name.as_bstr())?;
        if self.request.negotiation_tips.is_empty() && remote.negotiation_restrict.is_empty() {
            let message = "--negotiate-only needs one or more --negotiation-restrict=*";
            return Err(Failure::fatal(message));
        }
        let Offered { tips, include } =
            library::negotiation(self.library(), &remote, &self.wanted(&Words::default())?)?;
        let options = Options {
            connect: self.connect(&remote),
            negotiation_tips: tips,
            negotiation_include: include,
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
        let meter = Meter::default();
        let receiving = Display::new(receiving::Form::of_fetch(self.shows_progress()), &meter);
        let reporter = Reporter::new(self, remote, self.form, &receiving);
        let events = |event: fetch::Event<'_>| reporter.event(event);
        receiving.during(|| {
            library::with_engine(self.library(), &meter, &events, |context| work(context, &reporter))
        })?
    }

    pub(super) fn shows_progress(&self) -> bool {
        let request = self.request;
        request.progress.unwrap_or(request.verbosity >= 0 && progress::has_terminal())
    }

    /// Returns the request for one remote.
    fn wanted(&self, words: &Words) -> Result<library::Request, Failure> {
        let request = self.request;
        let mut prune_tags = request.prune_tags;
        if !words.may_prune_tags {
            // Git refuses a bad value also if it has no effect.
            self.repo.config(&keys::fetch::PRUNE_TAGS)?;
            prune_tags = Some(false);
        }
        Ok(library::Request {
            remote: None,
            refspecs: words.refspecs.clone(),
            refmap: request.refmap.clone(),
            tags: request.tags.map(|all| if all { Tags::All } else { Tags::None }),
            prune: request.prune,
            prune_tags,
            prefetch: request.prefetch,
            force: request.force,
            atomic: request.atomic,
            dry_run: request.dry_run,
            keep: request.keep,
            update_head_ok: request.update_head_ok,
            update_shallow: request.update_shallow,
            refetch: request.refetch,
            forced_updates: request.forced_updates,
            fetch_head: match (request.leaves_fetch_head, request.append) {
                (true, _) => FetchHeadPolicy::Leave,
                (false, true) => FetchHeadPolicy::Append,
                (false, false) => FetchHeadPolicy::Replace,
            },
            limits: self.limits(),
            filter: request.filter.clone(),
            no_filter: request.no_filter,
            negotiation_tips: request.negotiation_tips.clone(),
            negotiation_include: request.negotiation_include.clone(),
            set_upstream: request.set_upstream,
            action: self.action.clone(),
            quiet: request.verbosity < 0,
            connect: self.connect(&Remote::default()),
            maintenance: request.maintenance,
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

    fn limits(&self) -> Limits {
        let request = self.request;
        let number = |number: i64| u32::try_from(number).unwrap_or(WHOLE);
        let depth = match (&request.depth, request.deepen) {
            _ if request.unshallow => Some(WHOLE),
            (Some(depth), _) => Some(number(leading_number(depth))),
            (None, Some(deepen)) => Some(number(deepen.into())),
            (None, None) => None,
        };
        Limits {
            depth,
            relative: request.deepen.is_some(),
            since: request.shallow_since.as_ref().map(|text| repo::parse_moment(text.as_bstr())),
            exclude: request.shallow_exclude.clone(),
            filter: None,
        }
    }
}
