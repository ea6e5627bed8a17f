//! The first pass: reads the stream once, finds the entries, and hashes the objects that are not
//! deltas.

use std::sync::atomic::Ordering;

use format::{Kind, hash::Hasher, pack::HEADER_LEN};

use super::{
    End, Error, Options,
    existing::Namer,
    hashing::{Batch, Pool},
    header::{self, Base, Header},
    inflate::{Excess, Inflater, into_hash},
    input::Input,
    lately::Lately,
    table::{Entry, Form, NamedBase, Table, name_in, store_name},
};

/// Larger objects are hashed while they are inflated, and not kept in memory. In bytes.
const HELD: u64 = 16 << 20;

/// An upper bound for the length of an entry's header, in bytes.
const HEADER_ROOM: usize = 64;

/// Runs the first pass over `input`.
pub(super) fn scan(mut input: Input<'_>, options: &Options<'_>) -> Result<(Table, End), Error> {
    let (mut table, scanned) = entries(&mut input, options)?;
    scanned?;
    table.end = input.position();
    Ok((table, input.finish(options.hash.len())?))
}

/// Runs the first pass over a pack that may be cut off. Returns its complete entries up to the
/// first incomplete or damaged one.
pub(super) fn scan_beginning(mut input: Input<'_>, options: &Options<'_>) -> Result<Table, Error> {
    let (table, scanned) = entries(&mut input, options)?;
    match scanned {
        Ok(()) | Err(Error::Eof | Error::BadObject { .. } | Error::TooLarge) => Ok(table),
        Err(error) => Err(error),
    }
}

/// Reads the header and the entries. Returns the complete entries, and the error that ended the
/// scan.
fn entries(input: &mut Input<'_>, options: &Options<'_>) -> Result<(Table, Result<(), Error>), Error> {
    let count = pack_header(input)?;
    options.meter.total.store(count.into(), Ordering::Relaxed);
    let pool = Pool::new(options);
    let mut scan = Scan {
        options,
        table: Table::new(options.hash),
        inflater: Inflater::new(),
        namer: Namer::new(options),
        batch: pool.batch_for(0),
        large: Vec::new(),
        delta: Vec::new(),
        lately: Lately::default(),
        threads: 0,
    };
    scan.table.end = input.position();
    let scanned = std::thread::scope(|scope| {
        let closing = Closing(&pool, options);
        scan.threads = pool.start(scope, options.threads.saturating_sub(1));
        let scanned = scan.entries(input, &pool, count);
        let last = std::mem::take(&mut scan.batch);
        pool.hand_over(last, &mut scan.namer, scan.threads);
        pool.close(&mut scan.namer);
        drop(closing);
        scanned
    });
    // Objects that were queued come before the offset at which the scan failed, so their error
    // wins.
    scan.table.names = pool.finish()?;
    scan.table.names.resize(scan.table.entries.len() * options.hash.len(), 0);
    for (index, name) in &scan.large {
        store_name(&mut scan.table.names, *index, name);
    }
    for index in &scan.table.early {
        scan.table.early_names.extend_from_slice(name_in(&scan.table.names, options.hash, *index));
    }
    scan.table.large = scan.large.iter().map(|(index, _)| *index).collect();
    Ok((scan.table, scanned))
}

/// Closes the pool if the scan panics, so that its threads end.
struct Closing<'p, 'a>(&'p Pool<'a>, &'p Options<'a>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.0.close(&mut Namer::new(self.1));
    }
}

/// Reads the header of the pack. Returns the number of objects.
fn pack_header(input: &mut Input<'_>) -> Result<u32, Error> {
    use format::pack;
    let count = match pack::parse_header(input.fill(HEADER_LEN)?) {
        Ok(count) => count,
        Err(pack::Error::Version(version)) => return Err(Error::Version(version)),
        Err(_) => return Err(Error::Signature),
    };
    input.advance(HEADER_LEN)?;
    Ok(count)
}

struct Scan<'a> {
    options: &'a Options<'a>,
    table: Table,
    inflater: Inflater,
    namer: Namer<'a>,
    batch: Batch,
    /// The names of objects that are not kept in memory.
    large: Vec<(u32, format::ObjectId)>,
    /// The buffer for deltas, which are only checked for valid compression here.
    delta: Vec<u8>,
    /// The cache of bases, used while the observer is in a hurry.
    lately: Lately,
    threads: usize,
}

impl Scan<'_> {
    fn entries(&mut self, input: &mut Input<'_>, pool: &Pool<'_>, count: u32) -> Result<(), Error> {
        for index in 0..count {
            if self.options.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if !self.entry(input, pool, index)? {
                // The pool holds the error.
                return Err(Error::Interrupted);
            }
            self.options.meter.received.store(u64::from(index) + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads one entry. Returns false if an earlier object has failed.
    fn entry(&mut self, input: &mut Input<'_>, pool: &Pool<'_>, index: u32) -> Result<bool, Error> {
        let offset = input.position();
        input.start_entry();
        let header = self.header(input, offset)?;
        let mut goes_on = true;
        let is_in_hurry = self.is_in_hurry(index);
        match header.form {
            Form::Whole(kind) if header.size > HELD || self.is_big(kind, header.size) => {
                self.stream(input, index, offset, kind, header.size)?;
            }
            Form::Whole(kind) => {
                let len = header.size as usize;
                goes_on = pool.make_room(&mut self.batch, len, &mut self.namer, self.threads);
                let place = self.batch.place(len).expect("the room was just made");
                self.inflater.whole(input, place, offset)?;
                if is_in_hurry {
                    self.lately.add(index, kind, place);
                }
                self.batch.add(index, offset, kind, len);
            }
            Form::Delta if header.size > HELD => {
                self.inflater.pieces(input, header.size, Excess::Stops, offset, &mut |_| {})?;
            }
            Form::Delta => {
                let len = header.size as usize;
                if self.delta.len() < len {
                    self.delta.resize(len.next_power_of_two(), 0);
                }
                self.inflater.whole(input, &mut self.delta[..len], offset)?;
                if is_in_hurry && let Base::Offset(base) = header.base {
                    goes_on = self.apply(pool, index, offset, base, len);
                }
            }
        }
        let entry = Entry {
            offset,
            size: header.size,
            crc: input.crc(),
            header: header.len as u8,
            form: header.form,
        };
        self.record(index, entry, header.base);
        self.table.end = input.position();
        Ok(goes_on)
    }

    /// Returns the observer's state, which is queried every 64 entries.
    fn is_in_hurry(&mut self, index: u32) -> bool {
        let Some(observer) = self.options.observer else { return false };
        if index.is_multiple_of(64) && self.lately.set(observer.is_in_hurry()) {
            self.lately.clear();
        }
        self.lately.is_on()
    }

    /// Applies the delta of `len` bytes if its base is cached, and queues the result for hashing. A
    /// bad delta is left to the second pass. Returns false if an earlier object has failed.
    fn apply(&mut self, pool: &Pool<'_>, index: u32, offset: u64, base: u64, len: usize) -> bool {
        let Some(base) = self.table.at(base) else { return true };
        let Some((kind, size)) = self.lately.apply(base, &self.delta[..len]) else { return true };
        let goes_on = pool.make_room(&mut self.batch, size, &mut self.namer, self.threads);
        self.batch.place(size).expect("the room was just made").copy_from_slice(self.lately.result(size));
        self.lately.keep(index, kind, size);
        self.batch.add(index, offset, kind, size);
        self.table.early.push(index);
        goes_on
    }

    fn is_big(&self, kind: Kind, size: u64) -> bool {
        kind == Kind::Blob && size > self.options.big_file_threshold
    }

    fn header(&self, input: &mut Input<'_>, offset: u64) -> Result<Header, Error> {
        if input.unread().len() < HEADER_ROOM {
            input.read_ahead()?;
        }
        let mut least = 1;
        loop {
            let unread = input.fill(least)?;
            if let Some(header) = header::parse(unread, offset, self.options.hash)? {
                input.advance(header.len)?;
                return Ok(header);
            }
            least = unread.len() + 1;
        }
    }

    /// Hashes an object that is not kept in memory.
    fn stream(
        &mut self,
        input: &mut Input<'_>,
        index: u32,
        offset: u64,
        kind: Kind,
        size: u64,
    ) -> Result<(), Error> {
        let excess = if self.is_big(kind, size) { Excess::IsCounted } else { Excess::Stops };
        let mut hasher = Hasher::object(self.options.hash, kind.name(), size);
        self.inflater.pieces(input, size, excess, offset, &mut into_hash(&mut hasher))?;
        let name = hasher.finish().map_err(|_| Error::Attack(offset))?;
        self.large.push((index, name));
        Ok(())
    }

    fn record(&mut self, index: u32, entry: Entry, base: Base) {
        let at = match base {
            Base::Offset(offset) => self.table.at(offset),
            Base::Name(base) => {
                self.table.by_name.push(NamedBase { base, child: index });
                None
            }
            Base::None => None,
        };
        self.table.bases.push(header::or_none(at));
        self.table.entries.push(entry);
    }
}
