//! Configuration files. The reader and the editor return a value or an error, and what the editor
//! writes, the reader reads back.

#![no_main]

use bstr::{BString, ByteSlice as _};
use format::config::{Edit, edit};
use libfuzzer_sys::fuzz_target;

const KEY: &str = "remote.a.url";

fuzz_target!(|data: &[u8]| {
    let parsed = repo::fuzz::config(data);
    // The bytes up to the first NUL are the value to set, the rest is the file.
    let (value, file) = data.split_once_str("\0").unwrap_or((b"value", data));
    if value.contains(&0) {
        return;
    }
    let _ = edit(file, &[Edit::Unset { key: KEY.into() }]);
    let set = Edit::Set { key: KEY.into(), value: value.into() };
    if let (Ok(before), Ok(edited)) = (repo::fuzz::config(file), edit(file, &[set])) {
        let values = |pairs: Vec<(BString, Option<BString>)>| -> Vec<Option<BString>> {
            pairs.into_iter().filter(|(key, _)| key == KEY).map(|(_, value)| value).collect()
        };
        let after = repo::fuzz::config(&edited).expect("the editor writes valid files");
        assert_eq!(values(before).len().max(1), values(after.clone()).len());
        assert!(values(after).contains(&Some(value.into())));
    }
    drop(parsed);
});
