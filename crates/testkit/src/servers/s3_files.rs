//! Stores objects as files with `s3s-fs`, but reads them itself.
//!
//! To compute an entity tag, `s3s-fs` hashes the whole file for each range request. Here the tag
//! consists of the size and the modification time of the file.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use async_trait::async_trait;
use bytes::Bytes;
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
        CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput,
        DeleteObjectInput, DeleteObjectOutput, GetObjectInput, GetObjectOutput, HeadObjectInput,
        HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput, ListPartsOutput,
        PutObjectInput, PutObjectOutput, StreamingBlob, Timestamp, UploadPartInput, UploadPartOutput,
    },
    s3_error,
};
use s3s_fs::FileSystem;

/// The buffer size, in bytes.
const PIECE: usize = 256 << 10;

/// See the module.
pub(super) struct Files {
    root: PathBuf,
    files: FileSystem,
}

impl Files {
    pub(super) fn new(root: &Path) -> Files {
        Files { root: root.to_owned(), files: FileSystem::new(root).expect("a directory") }
    }
}

/// A stream of the bytes of a file. A server thread waits for the disk.
struct Pieces {
    file: File,
    left: usize,
}

impl Iterator for Pieces {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.left == 0 {
            return None;
        }
        let mut piece = vec![0; self.left.min(PIECE)];
        self.left -= piece.len();
        Some(self.file.read_exact(&mut piece).map(|()| piece.into()))
    }
}

#[async_trait]
impl s3s::S3 for Files {
    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let bucket = self.root.join(&input.bucket);
        if !bucket.is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        let opened = File::open(bucket.join(&input.key)).and_then(|file| Ok((file.metadata()?, file)));
        let Some((metadata, mut file)) = opened.ok().filter(|(metadata, _)| metadata.is_file()) else {
            return Err(s3_error!(NoSuchKey));
        };
        let size = metadata.len();
        let range = match &input.range {
            Some(range) => range.check(size)?,
            None => 0..size,
        };
        let (Ok(modified), Ok(_)) = (metadata.modified(), file.seek(SeekFrom::Start(range.start))) else {
            return Err(s3_error!(InternalError));
        };
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let length = range.end - range.start;
        let pieces = Pieces { file, left: usize::try_from(length).expect("a machine with 64 bits") };
        Ok(S3Response::new(GetObjectOutput {
            body: Some(StreamingBlob::wrap(futures_util::stream::iter(pieces))),
            content_length: Some(i64::try_from(length).expect("no file is longer")),
            content_range: input.range.map(|_| format!("bytes {}-{}/{size}", range.start, range.end - 1)),
            e_tag: Some(format!("\"{size:x}-{:x}\"", since.as_nanos())),
            last_modified: Some(Timestamp::from(modified)),
            ..GetObjectOutput::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.files.delete_object(request).await
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.files.head_object(request).await
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.files.list_objects_v2(request).await
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        self.files.put_object(request).await
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.files.create_multipart_upload(request).await
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        self.files.upload_part(request).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.files.complete_multipart_upload(request).await
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.files.abort_multipart_upload(request).await
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        self.files.list_parts(request).await
    }
}
