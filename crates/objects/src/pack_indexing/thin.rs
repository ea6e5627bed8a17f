//! Completes a thin pack: adds missing bases from the object database.
//!
//! As in Git, the deltas without a base are visited in the order of the pack, and a base is added
//! only if no base added earlier has resolved the delta. This keeps the number of added objects
//! low.

use std::sync::Arc;

use format::{Kind, ObjectId, pack};

use super::{
    Error, Pack,
    existing::name,
    maps_are_readable,
    resolve::Resolver,
    table::{Entry, Form, NamedBase, store_name},
};
use crate::database::{Objects, buffer::Buffer};

/// Appends bytes to the pack.
pub type Append<'a> = dyn FnMut(&[u8]) -> std::io::Result<()> + 'a;

impl Pack<'_> {
    /// Adds the missing bases that exist, deflated at `level`, and applies the deltas that need
    /// them. `data` are the bytes of the pack before this call. Returns the number of added
    /// objects.
    pub fn complete(&mut self, data: &[u8], level: i32, append: &mut Append<'_>) -> Result<u32, Error> {
        let before = self.count();
        let Some(objects) = self.options.existing else { return Ok(0) };
        let left = self.families.left();
        let wanted = &mut left.iter().map(|delta| delta.base);
        // Bases that cannot be fetched stay unresolved.
        let _ = objects.fetch_missing(wanted);
        for delta in &left {
            if !self.families.is_taken(delta) {
                self.add_base(objects, delta, data, level, append)?;
            }
        }
        Ok(self.count() - before)
    }

    fn add_base(
        &mut self,
        objects: &Objects,
        delta: &NamedBase,
        data: &[u8],
        level: i32,
        append: &mut Append<'_>,
    ) -> Result<(), Error> {
        let oid = delta.base;
        let mut reader = objects.reader();
        let Ok((kind, content)) = reader.read(&oid) else { return Ok(()) };
        let named = name(self.options.hash, kind, content, self.table.end);
        if named.ok() != Some(oid) {
            return Err(Error::LocalCorrupt(oid));
        }
        let memory = Arc::default();
        let mut held = Buffer::default();
        let size = content.len();
        let room = held.resize(size, &memory).map_err(|_| Error::Memory(size as u64))?;
        room.copy_from_slice(content);
        drop(reader);
        let index = self.append(&oid, kind, held.bytes(), level, append)?;
        let names = std::mem::take(&mut self.table.names);
        let mut resolver = Resolver::new(&self.options, &self.table, &self.families, data, names);
        resolver.outside = Some((index, kind, Arc::new(held)));
        let (names, resolved) = resolver.run_outside()?;
        self.table.names = names;
        self.unresolved -= resolved;
        maps_are_readable()
    }

    /// Appends an object to the pack. Returns the number of its entry.
    fn append(
        &mut self,
        oid: &ObjectId,
        kind: Kind,
        content: &[u8],
        level: i32,
        append: &mut Append<'_>,
    ) -> Result<u32, Error> {
        let (index, offset) = (self.count(), self.table.end);
        let mut header = Vec::new();
        pack::encode_entry(kind, content.len() as u64, &mut header);
        let mut crc = 0;
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            crc = zlib_rs::crc32::crc32(crc, bytes);
            len += bytes.len() as u64;
            append(bytes).map_err(Error::Write)
        };
        put(&header)?;
        deflate(content, level, &mut put)?;
        let (size, form) = (content.len() as u64, Form::Whole(kind));
        self.table.entries.push(Entry { offset, size, crc, header: header.len() as u8, form });
        self.table.end += len;
        self.families.push();
        store_name(&mut self.table.names, index, oid);
        Ok(index)
    }
}

/// Deflates `content`, and passes the result on in pieces.
pub(super) fn deflate(
    content: &[u8],
    level: i32,
    put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut stream, mut room) = (zlib_rs::Deflate::new(level, true, 15), vec![0; 64 << 10]);
    let mut rest = content;
    loop {
        let before = (stream.total_in(), stream.total_out());
        let status = stream.compress(rest, &mut room, zlib_rs::DeflateFlush::Finish);
        let (took, made) = (stream.total_in() - before.0, stream.total_out() - before.1);
        rest = &rest[took as usize..];
        put(&room[..made as usize])?;
        match status {
            Ok(zlib_rs::Status::StreamEnd) => return Ok(()),
            Err(error) if took == 0 && made == 0 => {
                return Err(Error::Write(std::io::Error::other(error.as_str())));
            }
            Ok(_) | Err(_) => {}
        }
    }
}
