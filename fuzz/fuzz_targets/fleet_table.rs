//! Bytes that may be a table of a segment, or a list of the objects of a pack.

#![no_main]

use format::base_files::{list, table::Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(names) = list::parse(data)
        && let Some(name) = names.first()
    {
        assert_eq!(list::encode(name.kind(), names), data);
    }
    let Ok(table) = Table::parse(data) else { return };
    assert_eq!(table.to_bytes(), data);
    let mut end = 0;
    for group in table.groups() {
        assert_eq!(group.offset, end);
        end += group.len;
        let raw: u64 = table.frames()[group.frames.clone()].iter().map(|frame| u64::from(frame.raw)).sum();
        let sizes: u64 = table.contents()[group.contents.clone()].iter().map(|content| content.size).sum();
        assert_eq!(raw, sizes);
    }
    assert_eq!(end, table.segment_len());
});
