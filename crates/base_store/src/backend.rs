//! The operations that each kind of remote has. [`crate::Remote`] documents them.

use std::{ops::Range, path::Path, time::SystemTime};

use format::base_files::{DataFile, Digest, RecordKind, RecordName};

use crate::{Error, StoredData, StoredRecord};

/// A kind of remote.
pub(crate) trait Backend: Send + Sync {
    fn has(&self, digest: &Digest) -> Result<bool, Error>;
    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error>;
    fn write(&self, digest: &Digest, path: &Path) -> Result<(), Error>;
    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error>;
    fn set_record(&self, name: &RecordName, bytes: &[u8], files: &[DataFile]) -> Result<(), Error>;
    fn remove_record(&self, name: &RecordName) -> Result<(), Error>;
    fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error>;
    fn data(&self) -> Result<Vec<StoredData>, Error>;
    fn remove(&self, digest: &Digest) -> Result<(), Error>;
    fn touch(&self, digest: &Digest) -> Result<(), Error>;

    /// The servers of other remotes remove uploads that nobody completes.
    fn remove_leftovers(&self, _: SystemTime) -> Result<(), Error> {
        Ok(())
    }
}
