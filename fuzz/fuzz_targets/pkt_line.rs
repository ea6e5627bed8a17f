//! pkt-lines: each header that is valid is the one that would be written for its payload.

#![no_main]

use format::pkt::{self, Header, MAX_PAYLOAD};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (mut rest, mut written) = (data, Vec::new());
    while let Some((digits, after)) = rest.split_first_chunk::<4>() {
        let Some(header) = pkt::parse_header(*digits) else { break };
        let begin = written.len();
        rest = after;
        match header {
            Header::Flush => pkt::write_flush(&mut written),
            Header::Delimiter => pkt::write_delimiter(&mut written),
            Header::ResponseEnd => written.extend_from_slice(b"0002"),
            Header::Data(length) => {
                assert!(length <= MAX_PAYLOAD);
                let Some((payload, after)) = rest.split_at_checked(length) else { break };
                pkt::write_line(&mut written, payload);
                rest = after;
            }
        }
        assert!(written[begin..begin + 4].eq_ignore_ascii_case(digits));
    }
});
