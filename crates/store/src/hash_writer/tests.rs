use super::*;
use proptest::prelude::*;

fn reference(kind: HashKind, parts: &[Vec<u8>]) -> (Vec<u8>, ObjectId) {
    let mut content = parts.concat();
    let mut hasher = Hasher::checksum(kind);
    hasher.update(&content);
    let checksum = hasher.finish().expect("a checksum");
    content.extend_from_slice(checksum.as_bytes());
    (content, checksum)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn all_hashing_modes_write_the_same_bytes(
        sizes in prop::collection::vec(
            prop_oneof![0..300usize, BUFFER - 2..BUFFER + 2, 3 * BUFFER..3 * BUFFER + 2], 0..12),
        sha256: bool,
    ) {
        let kind = if sha256 { HashKind::Sha256 } else { HashKind::Sha1 };
        let parts: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(index, &size)| vec![index as u8; size]).collect();
        let (content, checksum) = reference(kind, &parts);
        for hashing in [Hashing::Inline, Hashing::Threaded, Hashing::Skip] {
            let mut writer = HashWriter::new(Vec::new(), kind, hashing);
            let mut position = 0;
            for part in &parts {
                writer.write(part).expect("memory takes all");
                position += part.len() as u64;
                prop_assert_eq!(writer.position(), position);
            }
            let (out, trailer) = writer.finish().expect("memory takes all");
            let body = content.len() - kind.len();
            prop_assert_eq!(&out[..body], &content[..body]);
            prop_assert_eq!(&out[body..], trailer.as_bytes());
            prop_assert_eq!(trailer, if hashing == Hashing::Skip { ObjectId::null(kind) } else { checksum });
        }
    }
}

#[test]
fn reuses_buffers_for_large_files() {
    let parts = vec![vec![9; 1000]; 20_000];
    let (content, _) = reference(HashKind::Sha1, &parts);
    let mut writer = HashWriter::new(Vec::new(), HashKind::Sha1, Hashing::Threaded);
    for part in &parts {
        writer.write(part).expect("memory takes all");
    }
    assert_eq!(writer.finish().expect("memory takes all").0, content);
}

#[test]
fn a_full_disk_is_an_error() {
    for hashing in [Hashing::Inline, Hashing::Threaded, Hashing::Skip] {
        let mut room = [0; 1000];
        let mut writer = HashWriter::new(&mut room[..], HashKind::Sha1, hashing);
        let result = writer.write(&vec![1; 3 * BUFFER]).and_then(|()| writer.finish().map(drop));
        assert_eq!(result.expect_err("no room").kind(), io::ErrorKind::WriteZero);
    }
}

#[test]
fn goes_back_to_a_checkpoint() {
    for (kind, hashing) in [HashKind::Sha1, HashKind::Sha256]
        .iter()
        .flat_map(|&kind| [Hashing::Inline, Hashing::Threaded, Hashing::Skip].map(|how| (kind, how)))
    {
        let (content, checksum) = reference(kind, &[vec![1; 1000], vec![3; 2 * BUFFER + 5]]);
        let mut writer = HashWriter::new(Vec::new(), kind, hashing);
        writer.write(&[1; 1000]).expect("memory takes all");
        let checkpoint = writer.checkpoint().expect("memory takes all");
        assert_eq!(checkpoint.position(), 1000);
        for wasted in [0, 10, 3 * BUFFER] {
            writer.write(&vec![2; wasted]).expect("memory takes all");
            writer.rewind(&checkpoint).expect("memory can be cut");
            assert_eq!(writer.position(), 1000);
        }
        writer.write(&vec![3; 2 * BUFFER + 5]).expect("memory takes all");
        let (out, trailer) = writer.finish().expect("memory takes all");
        let body = content.len() - kind.len();
        assert_eq!(out[..body], content[..body]);
        assert_eq!(trailer, if hashing == Hashing::Skip { ObjectId::null(kind) } else { checksum });
    }
}

#[test]
fn continues_a_file() {
    for hashing in [Hashing::Inline, Hashing::Threaded] {
        let (content, _) = reference(HashKind::Sha1, &[b"abc".to_vec(), vec![9; BUFFER + 1]]);
        let mut hasher = Hasher::checksum(HashKind::Sha1);
        hasher.update(b"abc");
        let mut writer = HashWriter::resume(b"abc".to_vec(), hasher, 3, HashKind::Sha1, hashing);
        writer.write(&vec![9; BUFFER + 1]).expect("memory takes all");
        assert_eq!(writer.position(), 4 + BUFFER as u64);
        assert_eq!(writer.finish().expect("memory takes all").0, content);
    }
}

#[test]
fn sums_a_part() {
    let mut writer = HashWriter::new(Vec::new(), HashKind::Sha1, Hashing::Inline);
    writer.write(b"before").expect("memory takes all");
    writer.begin_crc32();
    writer.write(b"1234").expect("memory takes all");
    writer.write(b"56789").expect("memory takes all");
    assert_eq!(writer.end_crc32(), 0xcbf4_3926, "the check value of CRC-32");
    writer.write(b"after").expect("memory takes all");
    assert_eq!(writer.finish_without_trailer().expect("memory takes all"), b"before123456789after");
}

#[test]
fn truncates_files() {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let path = dir.path().join("file");
    let file = sys::by_path::create_new(&path, 0o600).expect("created");
    let mut writer = HashWriter::new(&file, HashKind::Sha1, Hashing::Inline);
    writer.write(b"abc").expect("written");
    let checkpoint = writer.checkpoint().expect("written");
    writer.write(b"wasted").expect("written");
    writer.flush().expect("written");
    writer.rewind(&checkpoint).expect("cut");
    writer.write(b"def").expect("written");
    writer.finish().expect("written");
    let (content, _) = reference(HashKind::Sha1, &[b"abcdef".to_vec()]);
    assert_eq!(sys::by_path::read(&path).expect("read"), Some(content));
}
