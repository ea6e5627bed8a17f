//! Files with names of their own.

use bstr::BString;
use engine::checkout::{StepError, Temporaries};

use super::{Found, Options, report};
use crate::{Error, Notice, text, transaction::IndexTransaction};

/// The files of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Temporary {
    /// The names of the files, by stage.
    pub names: [Option<BString>; 4],
    /// The path.
    pub path: BString,
}

/// Writes the entries to temporary files, which `written` receives. Returns false if some could not
/// be written, for reasons that were reported.
pub fn temporary(
    transaction: &IndexTransaction<'_>,
    options: &Options,
    found: Vec<Found>,
    written: &mut dyn FnMut(Temporary),
) -> Result<bool, Error> {
    let (context, index) = (transaction.context(), &transaction.index);
    let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
    let mut temporaries = Temporaries::new(context.repo, index, top)?;
    let mut is_complete = true;
    for found in found {
        let entries = match found {
            Found::Fatal(message) => return Err(Error::Failed(message)),
            Found::Skipped(message) => {
                report(transaction, options, message);
                is_complete = false;
                continue;
            }
            Found::Entries(entries) => entries,
        };
        let mut file = Temporary::default();
        for &at in &entries {
            let entry = &index.entry(at);
            let path = index.path(entry);
            let named = if entry.mode.is_gitlink() {
                Err(text!("cannot create temporary submodule ", path))
            } else {
                temporaries.write(path, entry).map_err(|error| match error {
                    StepError::Io { .. } => error.message(".merge_file_XXXXXX".into()).into(),
                    error => error.message(path).into(),
                })
            };
            for message in temporaries.take_messages() {
                context.events.notice(Notice::Converter(message.to_string()));
            }
            match named {
                Ok(name) => file.names[entry.stage as usize] = Some(name),
                Err(message) => {
                    context.events.notice(Notice::StepFailed(message));
                    is_complete = false;
                }
            }
        }
        if let Some(&at) = entries.first().filter(|_| file.names.iter().any(Option::is_some)) {
            file.path = index.path_at(at).to_owned();
            written(file);
        }
    }
    Ok(is_complete)
}
