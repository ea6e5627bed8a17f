//! Fetches promised objects from a promisor remote on demand, in one request.
//!
//! Equivalent to `git fetch --filter=blob:none --no-tags` with the object names as refspecs. No
//! haves are sent, no ref changes, and the pack becomes a promisor pack.

use format::ObjectId;

use super::{
    Context, Error, Options,
    map::Mapping,
    remote::Remote,
    transfer::{Depth, Transfer, shown_url},
};

/// Fetches the objects, all of which are missing. `options` configure the connection.
pub fn promised(
    context: Context<'_>,
    remote: &Remote,
    objects: &[ObjectId],
    options: &Options,
) -> Result<(), Error> {
    let mut options = options.clone();
    remote.complete(&mut options.connect);
    options.limits.filter = Some("blob:none".into());
    options.refetch = true;
    let url = repo::wire::Client::of(context.repo).url(remote.url());
    let shown = shown_url(&url);
    let mut wanted: Vec<Mapping> = objects.iter().map(|oid| Mapping::of_object(*oid)).collect();
    // Git requests them in this order.
    wanted.sort_by_key(|mapping| mapping.oid);
    let mut transfer = Transfer::new(context, &options, url);
    transfer.take(context.repo, &mut wanted, Depth::AsAsked, &shown)?;
    transfer.release();
    Ok(())
}
