use super::*;
use proptest::prelude::*;

const USE: Use = Use { generations: true, filters: true };

fn id(first: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[first; 20]).expect("20 bytes")
}

/// Two commits: 1 is the root, 9 is its child with a large generation.
fn sample() -> Vec<u8> {
    let names = [id(1), id(9)];
    let chunks: Vec<(Id, Vec<u8>)> = vec![
        (*b"OIDF", fanout::of_sorted(names.iter().map(|name| name.as_bytes()))),
        (*b"OIDL", names.iter().flat_map(|name| name.as_bytes().to_vec()).collect()),
        (*b"CDAT", {
            let commit = |tree: u8, parent: u32, level: u32, date: u64| {
                let mut bytes = vec![tree; 20];
                bytes.extend(parent.to_be_bytes());
                bytes.extend(NO_PARENT.to_be_bytes());
                bytes.extend((level << 2 | (date >> 32) as u32).to_be_bytes());
                bytes.extend((date as u32).to_be_bytes());
                bytes
            };
            [commit(7, NO_PARENT, 1, 3 << 32 | 5), commit(8, 0, 2, 6)].concat()
        }),
        (*b"GDA2", [0, LARGE_OFFSET].iter().flat_map(|offset: &u32| offset.to_be_bytes()).collect()),
        (*b"GDO2", (3_u64 << 32).to_be_bytes().to_vec()),
        (*b"BIDX", [1_u32, 3].iter().flat_map(|end| end.to_be_bytes()).collect()),
        (*b"BDAT", [&[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 10], &b"abb"[..]].concat()),
    ];
    let sizes: Vec<(Id, u64)> = chunks.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect();
    let mut file = head(HashKind::Sha1, 0, &sizes);
    chunks.iter().for_each(|(_, bytes)| file.extend(bytes));
    file.extend([0xcc; 20]);
    file
}

#[test]
fn reads_commits_generations_and_filters() {
    let (graph, complaints) = Graph::parse(sample(), HashKind::Sha1, USE).expect("a good one");
    assert_eq!(complaints, []);
    assert_eq!((graph.count(), graph.upto(0), graph.upto(1)), (2, 0, 1));
    let child = graph.find(&id(9)).expect("there");
    assert_eq!(graph.id(child), id(9));
    assert_eq!(graph.commit(child), Commit { tree: id(8), parents: [0, NO_PARENT], level: 2, date: 6 });
    assert_eq!(graph.commit(0).date, 3 << 32 | 5);
    assert_eq!(graph.generation_offset(1), Some(LARGE_OFFSET));
    assert_eq!(graph.large_offset(0), Ok(3 << 32));
    assert!(graph.large_offset(1).is_err());
    assert_eq!((graph.filter(0), graph.filter(1)), (Filter::Bytes(b"a"), Filter::Bytes(b"bb")));
    assert_eq!(graph.filter_settings(), Some(bloom::Settings::default()));
    assert_eq!((graph.edge(0), graph.base_count(), graph.has_valid_checksum()), (None, 0, false));
    let unused = Use { generations: false, filters: false };
    let (graph, _) = Graph::parse(sample(), HashKind::Sha1, unused).expect("a good one");
    assert_eq!((graph.has_generations(), graph.filter(0)), (false, Filter::None));
}

#[test]
fn names_damage_in_gits_words() {
    let changed = |at: usize, byte: u8| {
        let mut data = sample();
        data[at] = byte;
        Graph::parse(data, HashKind::Sha1, USE).map(|_| ()).map_err(|error| error.to_string())
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(changed(0, b'X'), error("commit-graph signature 58475048 does not match signature 43475048"));
    assert_eq!(changed(4, 2), error("commit-graph version 2 does not match version 1"));
    assert_eq!(changed(5, 2), error("commit-graph hash version 2 does not match version 1"));
    assert_eq!(changed(6, 255), error("commit-graph file is too small to hold 255 chunks"));
    assert_eq!(changed(8, b'X'), error("commit-graph required OID fanout chunk missing or corrupted"));
    assert_eq!(Graph::parse(vec![0; 9], HashKind::Sha1, USE).map(|_| ()).unwrap_err(), Error::TooSmall);
}

proptest! {
    #[test]
    fn survives_any_damage(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut data = sample();
        for (at, byte) in flips {
            let at = at.index(data.len());
            data[at] = byte;
        }
        let len = data.len();
        data.truncate(cut.map_or(usize::MAX, |cut| cut.index(len)));
        if let Ok((graph, _)) = Graph::parse(data, HashKind::Sha1, USE) {
            for n in 0..graph.count() {
                let _ = (graph.commit(n), graph.find(&graph.id(n)), graph.filter(n));
                let _ = (graph.generation_offset(n).map(|place| graph.large_offset(place)), graph.edge(n));
            }
            for n in 0..graph.base_count() {
                let _ = graph.base(n);
            }
        }
    }
}
