//! `fetch --negotiate-only`: finds common commits without fetching.

use format::ObjectId;
use repo::wire::{Client, Feature, Version};

use super::{
    Context, Error, Options,
    negotiate::{Algorithm, Negotiation, Tips},
    remote::Remote,
};

/// Negotiates from `options.negotiation_tips`. Returns the commits that the server acknowledges, in
/// the server's order.
pub fn negotiate_only(
    context: Context<'_>,
    remote: &Remote,
    options: &Options,
) -> Result<Vec<ObjectId>, Error> {
    let repo = context.repo;
    let mut connect = options.connect.clone();
    remote.complete(&mut connect);
    let client = Client::of(repo);
    let mut connection = client.connect(&client.url(remote.url()), &connect)?;
    if connection.version() < Version::V2 {
        return Err(Error::NegotiationVersion);
    }
    if !connection.has(Feature::WaitForDone) {
        return Err(Error::NoWaitForDone);
    }
    let objects = repo.stored_objects();
    let tips = Tips { given: options.negotiation_tips.as_deref(), ..Tips::default() };
    let mut negotiation = Negotiation::new(repo, &objects, Algorithm::load(repo)?, tips)?;
    negotiation.include(&options.negotiation_include, &objects);
    let common = connection.negotiate(&mut negotiation)?;
    connection.close()?;
    Ok(common)
}
