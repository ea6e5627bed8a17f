//! The location that the command line names, and standard input.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::{
    PlanError,
    config::{self, Found, Source},
};

use super::options::Request;
use crate::{
    session::{
        input::Input,
        invocation::{Invocation, Place},
    },
    term::failure::Failure,
};

/// The location that the command line names.
#[derive(Debug)]
pub(super) enum Location {
    /// A file by its name, or `-` for standard input.
    File(BString),
    Other(config::Location),
}

impl Location {
    /// Reads the location from the options. At most one may be given.
    pub(super) fn of(request: &mut Request) -> Result<Location, Failure> {
        let mut found = Vec::new();
        found.extend(request.system.then_some(Location::Other(config::Location::System)));
        found.extend(request.global.then_some(Location::Other(config::Location::Global)));
        found.extend(request.local.then_some(Location::Other(config::Location::Local)));
        found.extend(request.worktree.then_some(Location::Other(config::Location::Worktree)));
        found.extend(request.file.take().map(Location::File));
        found.extend(request.blob.take().map(|name| Location::Other(config::Location::Blob(name))));
        let location = found.pop();
        match found[..] {
            [] => Ok(location.unwrap_or(Location::Other(config::Location::Everywhere))),
            _ => Err(Failure::Error("only one config file at a time".into(), 129)),
        }
    }
}

/// The chosen location.
pub(super) struct Context<'a> {
    pub(super) run: &'a Invocation,
    place: config::Place<'a>,
    /// `None` is standard input.
    source: Option<Source<'a>>,
}

impl<'a> Context<'a> {
    /// Selects the location that the command line names.
    pub(super) fn choose(
        run: &'a Invocation,
        place: &'a Place,
        location: Location,
    ) -> Result<Context<'a>, Failure> {
        let (place, prefix) = match place {
            Place::Repository(repo) => (config::Place::Repository(repo), repo.prefix()),
            Place::Outside(outside) => (config::Place::Outside(outside), BStr::new("")),
        };
        let location = match (location, run.variable("GIT_CONFIG")) {
            (location @ Location::File(_), _) | (location, None) => location,
            (Location::Other(config::Location::Everywhere), Some(file)) => Location::File(file.into()),
            _ => return Err(Failure::Unserved("two configuration files")),
        };
        let location = match location {
            Location::File(name) if name == "-" => return Ok(Context { run, place, source: None }),
            Location::File(name) => {
                let path = run.path(&name).map_err(|_| Failure::Unserved("paths of this form"))?;
                let is_absolute = name.starts_with(b"/");
                let name = if is_absolute { name } else { [prefix.as_bytes(), &name].concat().into() };
                config::Location::File { path, name }
            }
            Location::Other(location) => location,
        };
        Ok(Context { run, place, source: Some(Source::of(place, location)?) })
    }

    /// Returns the source to change.
    pub(super) fn writable(self) -> Result<Source<'a>, Failure> {
        self.source_with(|_| Ok(Vec::new()))
    }

    /// Reads the settings.
    pub(super) fn read(self, includes: Option<bool>) -> Result<Found<'a>, Failure> {
        let source = self.source_with(|run| {
            let content = Input::new(run)?.all()?;
            content.map_err(|error| Failure::fatal(error.to_string()))
        })?;
        Ok(source.read(includes)?)
    }

    fn source_with(
        self,
        input: impl FnOnce(&Invocation) -> Result<Vec<u8>, Failure>,
    ) -> Result<Source<'a>, Failure> {
        match self.source {
            Some(source) => Ok(source),
            None => Ok(Source::of(self.place, config::Location::Input(input(self.run)?))?),
        }
    }

    /// Returns the conversion of errors about settings that were read.
    pub(super) fn failures(&self) -> fn(PlanError) -> Failure {
        match self.source {
            Some(_) => Failure::from,
            None => failure_of_input,
        }
    }
}

/// Standard input that was read cannot be read again by the real Git.
fn failure_of_input(error: PlanError) -> Failure {
    match error {
        PlanError::Unsupported(what) => Failure::fatal(format!("{what} are not supported in standard input")),
        error => error.into(),
    }
}
