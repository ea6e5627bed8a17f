//! A server that sends given bytes, whatever the request: for fuzz targets and tests.

use std::io::{self, Read};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;

use super::{
    Advertisement, ConnectOptions, Connection, Error, Feature, Limits, Negotiator, Request, link::Link,
};

struct Scripted {
    bytes: io::Cursor<Vec<u8>>,
    is_stateless: bool,
}

/// Ends a response of a stateless server.
const END: &[u8] = b"0002";

impl Scripted {
    fn rest(&self) -> &[u8] {
        let from = usize::try_from(self.bytes.position()).expect("the bytes are in memory");
        self.bytes.get_ref().get(from..).unwrap_or_default()
    }
}

impl Read for Scripted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.is_stateless.then(|| self.rest().find(END)).flatten();
        let len = buffer.len().min(end.unwrap_or(usize::MAX));
        self.bytes.read(&mut buffer[..len])
    }
}

impl Link for Scripted {
    fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    fn send(&mut self, _: &[u8]) -> Result<(), Error> {
        if self.is_stateless && self.rest().starts_with(END) {
            self.bytes.set_position(self.bytes.position() + END.len() as u64);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// Offers these commits.
struct Offers(Vec<ObjectId>);

impl Negotiator for Offers {
    fn next_have(&mut self) -> Result<Option<ObjectId>, Error> {
        Ok(self.0.pop())
    }

    fn acknowledge(&mut self, _: &ObjectId) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Reads the greeting and the refs of a server that sends `bytes`.
pub fn list(bytes: &[u8], is_stateless: bool) -> Result<Advertisement, Error> {
    connect(bytes, is_stateless)?.list_refs(&[])
}

/// Fetches all refs of a server that sends `bytes`. Returns the bytes of the pack.
pub fn fetch(bytes: &[u8], is_stateless: bool) -> Result<Vec<u8>, Error> {
    let mut connection = connect(bytes, is_stateless)?;
    let refs = connection.list_refs(&[])?;
    let wants: Vec<ObjectId> = refs.refs.iter().map(|found| found.oid).collect();
    let shallow = refs.shallow.clone();
    let takes_names = connection.has(Feature::RefInWant);
    let names = refs.refs.iter().filter(|_| takes_names).map(|found| found.name.clone());
    let want_refs: Vec<BString> = names.collect();
    let mut request = Request {
        wants: &wants,
        want_refs: &want_refs,
        negotiator: &mut Offers(wants.clone()),
        shallow: &shallow,
        limits: &Limits::default(),
        include_tags: true,
        thin_pack: true,
        progress: true,
        uri_protocols: &[],
        texts: &|_| {},
    };
    let mut stream = connection.fetch(&mut request)?;
    let mut pack = Vec::new();
    stream.read_to_end(&mut pack).map_err(|error| Error::Message(error.to_string()))?;
    stream.finish()?;
    Ok(pack)
}

fn connect(bytes: &[u8], is_stateless: bool) -> Result<Connection, Error> {
    let link = Scripted { bytes: io::Cursor::new(bytes.to_vec()), is_stateless };
    Connection::open(Box::new(link), &ConnectOptions::default())
}

#[cfg(test)]
mod tests {
    use format::pkt;
    use proptest::prelude::*;

    use super::*;

    const OID: &str = "0123456789012345678901234567890123456789";

    /// Lines that servers send, and bytes that they do not.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let line = |text: String| {
            let mut packet = Vec::new();
            pkt::write_line(&mut packet, text.as_bytes());
            packet
        };
        let texts = [
            "version 2\n".into(),
            "version 1\n".into(),
            "ls-refs=unborn\n".into(),
            "fetch=shallow wait-for-done filter\n".into(),
            "object-format=sha1\n".into(),
            format!("{OID} HEAD\0multi_ack_detailed side-band-64k ofs-delta symref=HEAD:refs/heads/a\n"),
            format!("{OID} refs/heads/a\n"),
            format!("{OID} HEAD symref-target:refs/heads/a peeled:{OID}\n"),
            format!("shallow {OID}\n"),
            "acknowledgments\n".into(),
            format!("ACK {OID} common\n"),
            format!("ACK {OID}\n"),
            "NAK\n".into(),
            "ready\n".into(),
            "shallow-info\n".into(),
            "packfile\n".into(),
            "\u{1}PACK".into(),
            "\u{2}text".into(),
            "\u{3}error".into(),
            "ERR no".into(),
        ];
        prop_oneof![
            8 => prop::sample::select(texts.to_vec()).prop_map(line),
            2 => Just(b"0000".to_vec()),
            1 => Just(b"0001".to_vec()),
            1 => Just(END.to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..12),
        ]
    }

    proptest! {
        #[test]
        fn every_answer_ends(packets in prop::collection::vec(packet(), 0..24), is_stateless: bool) {
            let bytes = packets.concat();
            let pack = fetch(&bytes, is_stateless).unwrap_or_default();
            prop_assert!(pack.len() <= bytes.len());
            let _ = list(&bytes, is_stateless);
        }
    }

    #[test]
    fn fetches_from_both_versions() {
        let line = |text: &str| {
            let mut packet = Vec::new();
            pkt::write_line(&mut packet, text.as_bytes());
            packet
        };
        let first = format!("{OID} refs/heads/a\0side-band-64k\n");
        let old = [line(&first), b"0000".to_vec(), line("NAK\n"), line("\u{1}PACK"), b"0000".to_vec()];
        assert_eq!(fetch(&old.concat(), false).expect("a pack"), b"PACK");
        let new = [
            line("version 2\n"),
            line("ls-refs\n"),
            line("fetch\n"),
            b"0000".to_vec(),
            line(&format!("{OID} refs/heads/a\n")),
            b"0000".to_vec(),
            line("acknowledgments\n"),
            line("ready\n"),
            b"0001".to_vec(),
            line("packfile\n"),
            line("\u{1}PACK"),
            b"0000".to_vec(),
        ];
        assert_eq!(fetch(&new.concat(), false).expect("a pack"), b"PACK");
    }

    #[test]
    fn a_response_that_stands_alone_ends_with_the_refs() {
        let greeting = b"000eversion 2\n000cls-refs\n0000".as_slice();
        let list = |refs: &[u8]| list(&[greeting, refs].concat(), true).map(|refs| refs.refs.len());
        assert_eq!(list(b"00000002").expect("no refs"), 0);
        for rest in [b"000003".as_slice(), b"00000000"] {
            let refused = list(rest).expect_err("something is left").to_string();
            assert_eq!(refused, "expected response end packet after ref listing");
        }
    }
}
