use std::{collections::BTreeMap, convert::Infallible};

use bstr::{BStr, BString, ByteSlice as _};
use proptest::prelude::*;

use super::{
    Place, canonical,
    read::{self, Content},
    write::{Error, Image, Layout, Options},
};

fn options(block_bits: u32, devices: Vec<u32>) -> Options {
    Options { block_bits, uuid: [7; 16], time: (1_700_000_000, 5), uid: 0, gid: 0, devices }
}

fn bytes(layout: &Layout) -> Vec<u8> {
    let mut bytes = Vec::new();
    let emitted: Result<(), Infallible> = layout.emit(&mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    emitted.expect("a vector takes everything");
    assert_eq!(bytes.len() as u64, layout.len());
    bytes
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Directory,
    Symlink(BString),
    File(u64, Option<Place>),
    Whiteout,
}

type Tree = BTreeMap<BString, (Kind, u16, u64)>;

fn read_back(bytes: &[u8]) -> Result<Tree, read::Error> {
    let mut tree = Tree::new();
    read::Image::open(bytes)?.walk::<read::Error>(&mut |path, inode| {
        let kind = match inode.content {
            Content::Directory => Kind::Directory,
            Content::Symlink(target) => Kind::Symlink(target.into()),
            Content::File(place) => Kind::File(inode.size, place),
            Content::Whiteout => Kind::Whiteout,
        };
        tree.insert(path.into(), (kind, inode.permissions, inode.nid));
        Ok(())
    })?;
    Ok(tree)
}

/// Builds an image of a list of paths, and returns it with the expected tree.
fn build(options: Options, paths: &BTreeMap<BString, Kind>) -> (Layout, Tree) {
    let mut image = Image::new(options, 0o755);
    let mut nodes = BTreeMap::from([(BString::default(), 0)]);
    for (path, kind) in paths {
        let (dir, name) = match path.rfind_byte(b'/') {
            Some(slash) => (path[..slash].as_bstr(), path[slash + 1..].as_bstr()),
            None => (BStr::new(""), path.as_bstr()),
        };
        let parent = nodes[dir];
        let node = match kind {
            Kind::Directory => image.add_directory(parent, name, 0o750),
            Kind::Symlink(target) => image.add_symlink(parent, name, target.as_bstr()),
            Kind::File(size, place) => image.add_file(parent, name, 0o640, *size, *place),
            Kind::Whiteout => image.add_whiteout(parent, name),
        };
        nodes.insert(path.clone(), node.expect("a valid node"));
    }
    let layout = image.lay_out().expect("fits");
    let expected = nodes
        .iter()
        .map(|(path, &node)| {
            let (kind, permissions) = match paths.get(path) {
                None => (Kind::Directory, 0o755),
                Some(kind @ Kind::Directory) => (kind.clone(), 0o750),
                Some(kind @ Kind::Symlink(_)) => (kind.clone(), 0o777),
                Some(kind @ Kind::File(..)) => (kind.clone(), 0o640),
                Some(Kind::Whiteout) => (Kind::Whiteout, 0),
            };
            (path.clone(), (kind, permissions, layout.nid(node)))
        })
        .collect();
    (layout, expected)
}

/// Generates lists of paths that include all parent directories.
fn trees() -> impl Strategy<Value = BTreeMap<BString, Kind>> {
    let name = prop_oneof![
        "[-!.a-c]{1,4}".prop_map(BString::from),
        "[a-z]{200,255}".prop_map(BString::from),
        Just(BString::from(vec![0xff, 0x80])),
    ]
    .prop_filter("a name", |name| name != "." && name != "..");
    let kind = prop_oneof![
        Just(Kind::Directory),
        Just(Kind::Whiteout),
        (1usize..1200).prop_map(|length| Kind::Symlink(vec![b't'; length].into())),
        (0u16..2, 0u32..1000, 0u64..5000).prop_map(|(device, block, size)| {
            Kind::File(size, (size > 0).then_some(Place { device, block }))
        }),
    ];
    prop::collection::vec((prop::collection::vec(name, 1..4), kind), 0..60).prop_map(|items| {
        let mut tree = BTreeMap::new();
        for (names, kind) in items {
            let mut path = BString::default();
            for (depth, name) in names.iter().enumerate() {
                if depth > 0 {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                let is_last = depth + 1 == names.len();
                let kind = if is_last { kind.clone() } else { Kind::Directory };
                if *tree.entry(path.clone()).or_insert(kind) != Kind::Directory {
                    break;
                }
            }
        }
        tree
    })
}

proptest! {
    #[test]
    fn reads_back_what_was_written(
        tree in trees(), block_bits in 9u32..13, chunked: bool, uid in prop_oneof![Just(0u32), Just(70_000)],
    ) {
        let devices = if chunked { vec![u32::MAX, 2000] } else { vec![3000, 2000] };
        let (layout, expected) = build(Options { uid, ..options(block_bits, devices) }, &tree);
        prop_assert_eq!(read_back(&bytes(&layout)), Ok(expected));
    }

    #[test]
    fn never_panics_on_a_damaged_image(
        tree in trees(), at in 0usize..1 << 16, byte: u8, cut in 0usize..1 << 16, sealed: bool,
    ) {
        let (layout, _) = build(options(9, vec![3000, 2000]), &tree);
        let mut image = bytes(&layout);
        let at = 1024 + at % (image.len() - 1024);
        image[at] = byte;
        if sealed {
            seal(&mut image);
        }
        let _ = read_back(&image);
        let _ = read_back(&image[..cut % image.len()]);
    }
}

/// Updates the superblock's checksum.
fn seal(image: &mut [u8]) {
    image[1028..1032].fill(0);
    let checksum = super::crc32c(!0, &image[1024..1536]);
    image[1028..1032].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn computes_the_known_checksum() {
    assert_eq!(!super::crc32c(!0, b"123456789"), 0xe306_9283);
}

#[test]
fn refuses_what_no_image_can_hold() {
    let mut image = Image::new(options(9, vec![10]), 0o755);
    let long = vec![b'a'; 256];
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &long] {
        assert_eq!(image.add_directory(0, name.as_bstr(), 0o755), Err(Error::Name));
    }
    assert_eq!(image.add_symlink(0, "l".into(), "".into()), Err(Error::Target));
    let outside = Place { device: 0, block: 9 };
    assert_eq!(image.add_file(0, "f".into(), 0o644, 513, Some(outside)), Err(Error::Place));
    assert_eq!(image.add_file(0, "f".into(), 0o644, 1, None), Err(Error::Place));
    image.add_file(0, "f".into(), 0o644, 512, Some(outside)).expect("the last block");
    image.add_directory(0, "f".into(), 0o755).expect("found when it is laid out");
    assert_eq!(image.lay_out().err(), Some(Error::Duplicate));
}

#[test]
fn a_file_of_many_chunks_is_one_range() {
    let size = 5 << 30;
    let place = Place { device: 1, block: 77 };
    for devices in [vec![5, 20 << 20], vec![u32::MAX, 20 << 20]] {
        let (layout, expected) =
            build(options(9, devices), &BTreeMap::from([("big".into(), Kind::File(size, Some(place)))]));
        assert_eq!(read_back(&bytes(&layout)), Ok(expected));
    }
}

/// Like [`build`], in the order of a Git index: a directory comes before its first member.
fn build_in_order(options: Options, paths: &BTreeMap<BString, Kind>) -> Vec<u8> {
    let has_members = |dir: &BStr| {
        let prefix = [&**dir, b"/"].concat();
        paths.keys().any(|path| path.starts_with(&prefix))
    };
    let key = |path: &BString| -> BString {
        let slash: &[u8] = if has_members(path.as_ref()) { b"/" } else { b"" };
        [path.as_slice(), slash].concat().into()
    };
    let mut ordered: Vec<(BString, &BString)> = paths.keys().map(|path| (key(path), path)).collect();
    ordered.sort();
    let mut image = Image::new(options, 0o755);
    let mut nodes = BTreeMap::from([(BString::default(), 0)]);
    for (_, path) in ordered {
        let (dir, name) = match path.rfind_byte(b'/') {
            Some(slash) => (path[..slash].as_bstr(), path[slash + 1..].as_bstr()),
            None => (BStr::new(""), path.as_bstr()),
        };
        let parent = nodes[dir];
        let node = match &paths[path] {
            Kind::Directory => image.add_directory(parent, name, 0o755),
            Kind::Symlink(target) => image.add_symlink(parent, name, target.as_bstr()),
            Kind::File(size, place) => image.add_file(parent, name, 0o644, *size, *place),
            Kind::Whiteout => image.add_whiteout(parent, name),
        };
        nodes.insert(path.clone(), node.expect("a valid node"));
    }
    bytes(&image.lay_out().expect("fits"))
}

fn emitted(checked: &canonical::Checked) -> Vec<u8> {
    let mut bytes = Vec::new();
    let emitted: Result<(), Infallible> = checked.emit(&mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    emitted.expect("a vector takes everything");
    bytes
}

proptest! {
    #[test]
    fn an_image_in_the_order_of_the_index_is_canonical(
        tree in trees(), block_bits in 9u32..13, chunked: bool, uid in prop_oneof![Just(0u32), Just(70_000)],
    ) {
        let devices = if chunked { vec![u32::MAX, 2000] } else { vec![3000, 2000] };
        let image = build_in_order(Options { uid, ..options(block_bits, devices.clone()) }, &tree);
        let checked = canonical::check(&image).expect("the writer made it");
        prop_assert_eq!(emitted(&checked), image);
        prop_assert_eq!(checked.facts().uid, uid);
        prop_assert_eq!(&checked.facts().devices, &devices);
        prop_assert_eq!(checked.facts().permissions & 0o7000, 0);
    }

    /// Whatever bytes are changed: what passes is what the writer makes.
    #[test]
    fn a_changed_image_is_refused_or_made_by_the_writer(
        tree in trees(), at in 0usize..1 << 16, byte: u8, cut in 0usize..1 << 16, chunked: bool,
    ) {
        let devices = if chunked { vec![u32::MAX, 2000] } else { vec![3000, 2000] };
        let mut image = build_in_order(options(9, devices), &tree);
        let (at, end) = (at % image.len(), cut % image.len());
        prop_assert!(canonical::check(&image[..end]).is_err());
        image[at] = byte;
        seal(&mut image);
        if let Ok(checked) = canonical::check(&image) {
            prop_assert_eq!(emitted(&checked), image);
        }
    }
}

fn small_tree() -> Vec<u8> {
    let file = |block| Kind::File(700, Some(Place { device: 0, block }));
    let paths = [
        ("a", Kind::Directory),
        ("a.b", file(0)),
        ("a/link", Kind::Symlink("target".into())),
        ("a/x", file(2)),
        ("empty", Kind::File(0, None)),
        ("gone", Kind::Whiteout),
        ("sub", Kind::Directory),
    ];
    build_in_order(options(9, vec![3000]), &paths.map(|(path, kind)| (path.into(), kind)).into())
}

/// The bytes that a user may choose: the rest of an image follows from its tree.
#[test]
fn each_bit_of_an_image_is_refused_or_is_content() {
    let image = small_tree();
    let facts = canonical::check(&image).expect("the writer made it").facts().clone();
    let mut free = 0;
    for bit in 0..image.len() * 8 {
        let mut flipped = image.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if (1024..1536).contains(&(bit / 8)) && !(1028..1032).contains(&(bit / 8)) {
            seal(&mut flipped);
        }
        let Ok(checked) = canonical::check(&flipped) else { continue };
        free += 1;
        assert_eq!(emitted(&checked), flipped, "bit {bit}");
        assert_eq!(checked.facts().devices.len(), facts.devices.len(), "bit {bit}");
    }
    // UUID and times; names and targets; permissions, sizes and places of files.
    assert!((200..1600).contains(&free), "{free} bits are free");
}

#[test]
fn another_order_of_inodes_is_refused() {
    let tree = BTreeMap::from([("a".into(), Kind::Directory), ("b".into(), Kind::Directory)]);
    let mut image = Image::new(options(9, vec![]), 0o755);
    for name in ["b", "a"] {
        image.add_directory(0, name.into(), 0o755).expect("a valid node");
    }
    let other = bytes(&image.lay_out().expect("fits"));
    assert!(read_back(&other).is_ok(), "its tree is the same");
    assert!(matches!(canonical::check(&other), Err(canonical::Error::Differs { .. })));
    canonical::check(&build_in_order(options(9, vec![]), &tree)).expect("the writer made it");
}

/// No recursion depends on the depth of the tree.
#[test]
fn a_deep_tree_is_checked() {
    const DEPTH: usize = 20_000;
    let mut image = Image::new(options(9, vec![]), 0o755);
    let mut parent = 0;
    for _ in 0..DEPTH {
        parent = image.add_directory(parent, "d".into(), 0o755).expect("a valid node");
    }
    let image = bytes(&image.lay_out().expect("fits"));
    let checked = canonical::check(&image).expect("the writer made it");
    assert_eq!(checked.facts().inodes, DEPTH as u64 + 1);
}

/// Many links share the bytes of one target. Their copies would take many times as much memory as
/// the image.
#[test]
fn targets_that_share_bytes_are_refused() {
    const LENGTH: usize = 4000;
    let mut paths = BTreeMap::from([("long".into(), Kind::Symlink("x".repeat(LENGTH).into()))]);
    paths.extend((0..100).map(|number| (format!("n{number:02}").into(), Kind::Symlink("y".into()))));
    let good = build_in_order(options(9, vec![]), &paths);
    canonical::check(&good).expect("the writer made it");
    let tree = read_back(&good).expect("the writer made it");
    let inode = |name: &str| tree[BStr::new(name)].2 as usize * 32;
    let mut image = good.clone();
    for number in 0..100 {
        let (short, long) = (inode(&format!("n{number:02}")), inode("long"));
        // Format, size, and the block of the target.
        for field in [0..2, 8..12, 16..20] {
            image.copy_within(long + field.start..long + field.end, short + field.start);
        }
    }
    seal(&mut image);
    let shared = read_back(&image).expect("the reader takes it");
    assert_eq!(
        shared.values().filter(|(kind, ..)| *kind == Kind::Symlink("x".repeat(LENGTH).into())).count(),
        101
    );
    assert_eq!(canonical::check(&image).err(), Some(canonical::Error::Shared));
}

/// Several changes at once, which keep more of the format than a single random byte: copies of
/// fields, of inodes and of entries, and small numbers.
#[test]
fn many_changes_are_refused_or_made_by_the_writer() {
    const ROUNDS: usize = 50_000;
    let good = small_tree();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let mut passed = 0;
    for round in 0..ROUNDS {
        let mut image = good.clone();
        for _ in 0..1 + below(4) {
            let width = [1, 2, 4, 8, 12, 32][below(6)];
            // The first 1,024 bytes are zeros.
            let at = 1024 + below(good.len() - 1024 - width);
            match below(3) {
                0 => {
                    let from = 1024 + below(good.len() - 1024 - width);
                    image.copy_within(from..from + width, at);
                }
                1 => image[at] ^= 1 << below(8),
                _ => image[at..at + width].fill(below(80) as u8),
            }
        }
        if below(16) > 0 {
            seal(&mut image);
        }
        if let Ok(checked) = canonical::check(&image) {
            passed += 1;
            assert_eq!(emitted(&checked), image, "round {round}");
        }
    }
    assert!((ROUNDS / 500..ROUNDS).contains(&passed), "{passed} images passed");
}
