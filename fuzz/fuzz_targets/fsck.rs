//! The check of objects: any bytes end in messages, and what is refused has an error.

#![no_main]

use format::{HashKind, Kind, ObjectId};
use libfuzzer_sys::fuzz_target;
use repo::fsck::{Files, Line, Roles, Rules, blob, object};

fuzz_target!(|data: &[u8]| {
    let (rules, oid) = (Rules::strict(HashKind::Sha1), ObjectId::null(HashKind::Sha1));
    let mut found = vec![blob(&rules, &oid, Some(data), Roles { modules: true, attributes: true })];
    for kind in [Kind::Commit, Kind::Tree, Kind::Tag] {
        found.push(object(&rules, &oid, kind, data, &mut Files::default()));
    }
    for found in found {
        let has_error = found.lines.iter().any(|line| matches!(line, Line::Error(_)));
        assert!(has_error || !found.is_refused);
    }
});
