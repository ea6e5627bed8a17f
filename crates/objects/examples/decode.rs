//! Decodes every blob of a commit's tree and prints the cost.
//!
//! `cargo run --release -p sapwood-objects --example decode -- <git dir> <list of blobs> <order>
//! <threads> <cache MiB>`
//!
//! The list is the output of `git ls-tree -r <commit>`. `order` is `index` (contiguous ranges, one
//! per thread), `pack` (by location, contiguous ranges) or `files=<n>` (ranges of n files, each
//! read by location).

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;

use format::{HashKind, ObjectId};
use objects::{Objects, Options};

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let nanoseconds: f64 = stat.split(' ').next().and_then(|field| field.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [git_dir, list, order, threads, cache] = &args[..] else { panic!("five arguments") };
    let threads: usize = threads.parse().expect("a number");
    let cache: usize = cache.parse().expect("a number");
    let list = std::fs::read_to_string(list).expect("the list");
    let mut oids: Vec<ObjectId> = list
        .lines()
        .filter(|line| line.contains(" blob "))
        .map(|line| ObjectId::from_hex(HashKind::Sha1, &line.as_bytes()[12..52]).expect("a name"))
        .collect();
    let options = Options { base_cache: cache << 20, ..Options::default() };
    let objects = Objects::with(&Path::new(git_dir).join("objects"), HashKind::Sha1, options);
    let before = cpu_seconds();
    match (order.as_str(), order.strip_prefix("files=")) {
        ("index", _) => {}
        ("pack", _) => oids.sort_by_cached_key(|oid| objects.locate(oid)),
        (_, Some(files)) => oids
            .chunks_mut(files.parse().expect("a number"))
            .for_each(|range| range.sort_by_cached_key(|oid| objects.locate(oid))),
        _ => panic!("no such order: {order}"),
    }
    println!("locate and sort: cpu {:.3} s", cpu_seconds() - before);
    let wall = Instant::now();
    let work = |oids: &[ObjectId]| {
        let before = cpu_seconds();
        let mut reader = objects.reader();
        let bytes: u64 = oids.iter().map(|oid| reader.read(oid).expect("reads").1.len() as u64).sum();
        (bytes, cpu_seconds() - before, reader.counts())
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> =
            oids.chunks(oids.len().div_ceil(threads)).map(|range| scope.spawn(move || work(range))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    let bytes: u64 = results.iter().map(|result| result.0).sum();
    let cpu: f64 = results.iter().map(|result| result.1).sum();
    println!(
        "{} blobs, {bytes} bytes, order {order}, {threads} threads, {cache} MiB: cpu {cpu:.3} s, wall {:.3} s; {:?}",
        oids.len(),
        wall.elapsed().as_secs_f64(),
        results.iter().map(|result| result.2).collect::<Vec<_>>()
    );
}
