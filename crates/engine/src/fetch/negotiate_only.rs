//! `fetch --negotiate-only`: the commits that both sides have, without fetching.

use format::ObjectId;
use repo::wire::{Client, Feature, Version};

use super::{
    Context, Error, Options,
    negotiate::{Algorithm, Negotiation, Tips},
    remote::Remote,
};

/// Returns those of the commits offered from `options.negotiation_tips` that the server has, in the
/// order in which it named them.
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
