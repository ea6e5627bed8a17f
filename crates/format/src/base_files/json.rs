//! Members of JSON objects, with the errors that all records share.

use serde_json::{Map, Value};

use crate::{HashKind, ObjectId};

use super::DataFile;

/// The version of all records.
const VERSION: u64 = 1;

/// The reason why the bytes are not a record of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Malformed {
    #[error("it is no JSON: {0}")]
    Json(String),
    #[error("it is no {0}")]
    Kind(&'static str),
    #[error("it has version {0}; this program reads version 1")]
    Version(u64),
    #[error("its member '{0}' is missing or wrong")]
    Member(&'static str),
    #[error("its members contradict each other: {0}")]
    Contradiction(&'static str),
}

/// A JSON object.
pub(super) struct Object<'v>(&'v Map<String, Value>);

/// Reads the JSON of a record.
pub(super) fn read(bytes: &[u8]) -> Result<Value, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| Malformed::Json(error.to_string()))
}

impl<'v> Object<'v> {
    /// Returns the record in `value`. Its member `sapwood` must be `kind`.
    pub(super) fn record(value: &'v Value, kind: &'static str) -> Result<Object<'v>, Malformed> {
        let object = Object(value.as_object().ok_or(Malformed::Kind(kind))?);
        if object.0.get("sapwood").and_then(Value::as_str) != Some(kind) {
            return Err(Malformed::Kind(kind));
        }
        match object.number("version")? {
            VERSION => Ok(object),
            other => Err(Malformed::Version(other)),
        }
    }

    pub(super) fn number(&self, key: &'static str) -> Result<u64, Malformed> {
        self.0.get(key).and_then(Value::as_u64).ok_or(Malformed::Member(key))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<&'v str, Malformed> {
        self.0.get(key).and_then(Value::as_str).ok_or(Malformed::Member(key))
    }

    pub(super) fn hash(&self) -> Result<HashKind, Malformed> {
        let name = self.text("hash")?;
        let known = [HashKind::Sha1, HashKind::Sha256].into_iter().find(|hash| hash.name() == name);
        known.ok_or(Malformed::Member("hash"))
    }

    pub(super) fn oid(&self, hash: HashKind, key: &'static str) -> Result<ObjectId, Malformed> {
        oid(hash, key, self.0.get(key))
    }

    pub(super) fn oids(&self, hash: HashKind, key: &'static str) -> Result<Vec<ObjectId>, Malformed> {
        self.values(key)?.iter().map(|value| oid(hash, key, Some(value))).collect()
    }

    pub(super) fn objects(
        &self,
        key: &'static str,
    ) -> Result<impl ExactSizeIterator<Item = Result<Object<'v>, Malformed>>, Malformed> {
        let object = move |value: &'v Value| value.as_object().map(Object).ok_or(Malformed::Member(key));
        Ok(self.values(key)?.iter().map(object))
    }

    /// Returns the data file in the member `key`: an object with `digest` and `size`.
    pub(super) fn file(&self, key: &'static str) -> Result<DataFile, Malformed> {
        let object = self.0.get(key).and_then(Value::as_object).ok_or(Malformed::Member(key))?;
        Object(object).own_file().map_err(|_| Malformed::Member(key))
    }

    /// Returns the data file whose `digest` and `size` are members of this object.
    pub(super) fn own_file(&self) -> Result<DataFile, Malformed> {
        let digest = self.text("digest")?.parse().map_err(|_| Malformed::Member("digest"))?;
        Ok(DataFile { digest, size: self.number("size")? })
    }

    fn values(&self, key: &'static str) -> Result<&'v Vec<Value>, Malformed> {
        self.0.get(key).and_then(Value::as_array).ok_or(Malformed::Member(key))
    }
}

fn oid(hash: HashKind, key: &'static str, value: Option<&Value>) -> Result<ObjectId, Malformed> {
    let hex = value.and_then(Value::as_str).ok_or(Malformed::Member(key))?;
    ObjectId::from_hex(hash, hex.as_bytes()).ok_or(Malformed::Member(key))
}
