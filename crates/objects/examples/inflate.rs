//! Inflates every entry of a pack, in the order of the pack, with each of three inflaters, and
//! prints the CPU seconds.
//!
//! `cargo run --release -p sapwood-objects --example inflate -- <file.pack> [rounds]`

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::path::Path;

use format::{HashKind, idx::Idx, pack};

/// Returns the CPU time of this thread in nanoseconds.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    stat.split(' ').next().and_then(|field| field.parse().ok()).expect("a number")
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a pack");
    let rounds = args.next().map_or(3, |rounds| rounds.parse().expect("a number"));
    let map = |path: &Path| sys::by_path::open(path).and_then(|file| sys::Map::of(&file)).expect("opens");
    let data = map(Path::new(&path));
    let idx = Idx::parse(map(&Path::new(&path).with_extension("idx")), HashKind::Sha1).expect("a good index");
    let mut offsets: Vec<usize> =
        (0..idx.count()).map(|n| idx.offset(n).expect("a good offset") as usize).collect();
    offsets.sort_unstable();
    let entries: Vec<(&[u8], usize)> = offsets
        .iter()
        .map(|&offset| {
            let entry = pack::parse_entry(&data[offset..], HashKind::Sha1).expect("a good entry");
            (&data[offset + entry.len..], entry.size as usize)
        })
        .collect();
    let total: usize = entries.iter().map(|entry| entry.1).sum();
    println!("{} entries, {total} bytes inflated", entries.len());
    let mut out = vec![1; entries.iter().map(|entry| entry.1).max().unwrap_or(0) + 1];

    for _ in 0..rounds {
        let start = cpu();
        let mut inflater = libdeflater::Decompressor::new();
        for &(input, size) in &entries {
            assert_eq!(inflater.zlib_decompress(input, &mut out[..size]), Ok(size));
        }
        let libdeflate = cpu() - start;

        let start = cpu();
        let mut inflater = sirocco::inflate::Decoder::new(sirocco::Format::Zlib);
        for &(input, size) in &entries {
            let progress = inflater.decompress(input, &mut out[..size], true).expect("good data");
            assert!(progress.done && progress.output.len() == size);
        }
        let sirocco = cpu() - start;

        let start = cpu();
        let mut inflater = zlib_rs::Inflate::new(true, 15);
        for &(input, size) in &entries {
            inflater.reset(true);
            // One byte more than needed: the inflater must see the end of the stream.
            let status = inflater.decompress(input, &mut out[..=size], zlib_rs::InflateFlush::Finish);
            assert_eq!((status, inflater.total_out() as usize), (Ok(zlib_rs::Status::StreamEnd), size));
        }
        let zlib_rs = cpu() - start;

        let [libdeflate, sirocco, zlib_rs] = [libdeflate, sirocco, zlib_rs].map(|time| time as f64 / 1e9);
        println!("libdeflate {libdeflate:.3}  sirocco {sirocco:.3}  zlib-rs {zlib_rs:.3}");
    }
}
