//! The new repository with its remote: the source's refs are known, and the remote is configured.
//!
//! Order: the connection, the selection of refs, the settings of the remote, a base or bundles, the
//! settings of the branch. A clone that is killed from here on can also be finished with
//! `git fetch`.

use bstr::ByteSlice;
use format::{ObjectId, config::Edit};
use repo::{fsck::Rules, keys, wire::Limits};

use super::{
    Error, Event, Filter, Kind, ObjectsError, Source,
    ahead::{self, Ahead},
    alternates::{self, Alternates},
    assembly::Skeleton,
    channel::{Channel, Route},
    decisions::default_branch,
    select::{RefOptions, Selection},
    settings,
};

/// The selected refs, and the open source.
pub(super) struct Selected<'a> {
    pub(super) skeleton: Skeleton<'a>,
    /// The source after `url.<base>.insteadOf`.
    pub(super) source: Source,
    pub(super) channel: Channel,
    pub(super) ref_options: RefOptions,
    pub(super) selection: Selection,
    pub(super) references: Alternates,
    pub(super) limits: Limits,
    /// Objects that arrive are checked by these rules.
    pub(super) rules: Option<Rules>,
    /// The commit whose base comes first.
    pub(super) base: Option<ObjectId>,
}

/// A configured remote, and the objects that came before it is asked for the others.
pub(super) struct Configured<'a> {
    pub(super) selected: Selected<'a>,
    pub(super) ahead: Option<Ahead>,
}

impl<'a> Selected<'a> {
    /// Opens the source, and selects refs.
    pub(super) fn of(skeleton: Skeleton<'a>) -> Result<Selected<'a>, Error> {
        let Skeleton { prepared, caller, repo, .. } = &skeleton;
        let (options, events) = (&prepared.options, caller.events);
        let ref_options = prepared.ref_options(repo)?;
        let references = alternates::resolve(&options.references, &options.open.cwd, events)?;
        let source = prepared.rewritten(repo)?;
        let route = prepared.route(repo, &source, events)?;
        if source.kind != Kind::Server {
            repo::wire::Client::of(repo).check_allowed("file".into()).map_err(ObjectsError::Wire)?;
        }
        let mut limits = prepared.limits(&route)?;
        let (rules, warnings) =
            if matches!(route, Route::Files(_)) { Default::default() } else { repo.fetch_rules()? };
        warnings.iter().for_each(|warning| events(Event::Warning(&warning.to_str_lossy())));
        let channel = Channel::open(route, &skeleton, &ref_options)?;
        let selection = ref_options.select(channel.advertisement())?;
        skeleton.report(&ref_options, &selection)?;
        let base = match caller.seed {
            Some(seed) if !channel.copies_files() => ahead::find_base(seed, &selection)?,
            _ => None,
        };
        if base.is_some() {
            limits.filter.get_or_insert_with(|| ahead::FILTER.into());
        }
        // Git leaves the severities of single flaws out where a server may omit objects.
        let rules =
            rules.map(|rules| if limits.filter.is_some() { Rules::strict(rules.hash()) } else { rules });
        Ok(Selected { skeleton, source, channel, ref_options, selection, references, limits, rules, base })
    }

    /// Returns the settings of the remote and of the first branch.
    fn edits(&self) -> Vec<Edit> {
        let Skeleton { prepared, repo, .. } = &self.skeleton;
        let rebase = repo.config_str(&keys::branch::AUTO_SETUP_REBASE);
        let rebase = rebase.as_ref().map(|value| value.as_bstr());
        let (url, hash) = (prepared.source.url.as_bstr(), self.channel.hash());
        let mut edits = settings::clone_edits(&self.ref_options, url, hash, rebase, &self.selection);
        // Git records the filter even if it ignores it.
        let filter = self.limits.filter.as_ref().map(|filter| filter.as_bstr());
        if let Some(filter) = filter.or(prepared.options.filter.as_ref().map(Filter::expanded)) {
            edits.extend(settings::partial_clone_edits(&self.ref_options, filter));
        }
        edits
    }
}

impl<'a> Configured<'a> {
    /// Configures the remote.
    pub(super) fn of(mut selected: Selected<'a>) -> Result<Configured<'a>, Error> {
        let edits = selected.edits();
        // Bundles may add settings, which come before those of the branch in Git's file.
        let takes_bundles = selected.base.is_none() && selected.takes_bundles()?;
        let (later, edits): (Vec<Edit>, Vec<Edit>) =
            edits.into_iter().partition(|edit| takes_bundles && edit.key().starts_with(b"branch."));
        selected.skeleton.configure(&edits)?;
        selected.skeleton.caller.check_interrupt()?;
        let ahead = Ahead::bring(&mut selected)?;
        selected.skeleton.configure(&later)?;
        selected.skeleton.caller.check_interrupt()?;
        Ok(Configured { selected, ahead })
    }
}

impl Skeleton<'_> {
    /// Reports refs with invalid names, an empty source, and the name of the default branch.
    fn report(&self, ref_options: &RefOptions, selection: &Selection) -> Result<(), Error> {
        let (repo, events) = (&self.repo, self.caller.events);
        for name in &selection.funny {
            events(Event::Error(&format!("* Ignoring funny ref '{name}' locally")));
        }
        if selection.empty {
            events(Event::Warning("You appear to have cloned an empty repository."));
        }
        let advises = repo.config(&keys::advice::DEFAULT_BRANCH_NAME)?
            && repo.env().boolean("GIT_ADVICE")?.unwrap_or(true);
        if selection.default_branch_used && default_branch(repo).is_none() && advises {
            events(Event::DefaultBranch(ref_options.default_branch.as_bstr()));
        }
        Ok(())
    }

    /// Edits the configuration of the new repository.
    fn configure(&self, edits: &[Edit]) -> Result<(), Error> {
        if !edits.is_empty() {
            let config = self.git_dir().join("config");
            store::config::edit(&config, edits, &self.writing.locks(), &self.writing.fsync)?;
        }
        Ok(())
    }
}
