//! Resolve undo (REUC extension): the stages of a conflict before it was resolved. `checkout -m
//! <path>` restores them.

use std::collections::BTreeMap;

use bstr::{BString, ByteSlice};

use super::{Stage, bytes::Reader};
use crate::{HashKind, Mode, ObjectId};

/// The stages of resolved conflicts by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolveUndo {
    /// For each path its stages 1, 2 and 3, where present.
    pub paths: BTreeMap<BString, [Option<(Mode, ObjectId)>; 3]>,
}

impl ResolveUndo {
    /// Records one stage. Ignores stage 0.
    pub fn record(&mut self, path: &bstr::BStr, stage: Stage, mode: Mode, oid: ObjectId) {
        if stage != Stage::Normal {
            self.paths.entry(path.to_owned()).or_default()[stage as usize - 1] = Some((mode, oid));
        }
    }

    /// Reads the payload of a REUC extension. Returns `None` if it is malformed; like Git, the
    /// reader then ignores the extension.
    pub(super) fn read(data: &[u8], hash: HashKind) -> Option<ResolveUndo> {
        let mut undo = ResolveUndo::default();
        let mut reader = Reader(data);
        while !reader.0.is_empty() {
            let path = reader.string()?;
            let mut modes = [0; 3];
            for mode in &mut modes {
                *mode = u32::from_str_radix(reader.string()?.to_str().ok()?, 8).ok()?;
            }
            let stages = undo.paths.entry(path.to_owned()).or_default();
            for (stage, mode) in stages.iter_mut().zip(modes) {
                if mode != 0 {
                    *stage = Some((Mode::from_raw(mode), reader.oid(hash)?));
                }
            }
        }
        Some(undo)
    }

    /// Appends the payload of a REUC extension.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (path, stages) in &self.paths {
            out.extend_from_slice(path);
            out.push(0);
            for stage in stages {
                let mode = stage.map_or(0, |(mode, _)| mode.bits());
                out.extend_from_slice(format!("{mode:o}\0").as_bytes());
            }
            for (_, oid) in stages.iter().flatten() {
                out.extend_from_slice(oid.as_bytes());
            }
        }
    }
}
