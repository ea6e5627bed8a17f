//! `base mirror`: follows branches of a repository and pushes the bases of their tips.
//!
//! Commands of this program clone and fetch: their progress and messages are those of `clone` and
//! `fetch`.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::base::{
    mirror::{self, Followed, Mirror, Place, Pushed},
    push::Sent,
};
use serde_json::{Value, json};

use super::{
    push,
    request::{MIRROR, Request},
    time,
};
use crate::{
    commands::workspace::context::print_document,
    session::{invocation::Invocation, reexec},
    term::{
        console::{self, text},
        failure::Failure,
        text::os_str,
    },
};

/// The longest sleep between two looks for a signal.
const NAP: Duration = Duration::from_millis(200);

/// Runs the command. Returns its exit code: 1 if a branch could not be pushed.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = MIRROR.parse(args)?.store(&mut request)?;
    let interval = match &request.interval {
        Some(word) if !request.once => Some(time::parse(word.as_bstr())?),
        Some(_) => return Err(Failure::fatal("options '--once' and '--interval' cannot be used together")),
        None => None,
    };
    let mirror = mirror(run, &request, words)?;
    loop {
        let begin = Instant::now();
        let round = round(run, &request, &mirror);
        let Some(interval) = interval else { return round };
        // A server that is away now may be there in the next round.
        if let Err(failure) = round {
            if matches!(failure, Failure::Signal(_)) {
                return Err(failure);
            }
            failure.print();
        }
        console::flush();
        while begin.elapsed() < interval {
            run.interrupt.check()?;
            std::thread::sleep(NAP.min(interval.saturating_sub(begin.elapsed())));
        }
    }
}

fn mirror(run: &Invocation, request: &Request, words: Vec<BString>) -> Result<Mirror, Failure> {
    let shown = request.dir.clone().ok_or_else(|| Failure::fatal("name the repository to keep: --dir"))?;
    let dir = run.path(&shown)?;
    if words.len() > 2 {
        return Err(Failure::fatal("name the remote, and at most one URL to mirror"));
    }
    let mut words = words.into_iter();
    let asked = mirror::Request {
        dir: dir.clone(),
        remote: words.next(),
        url: words.next(),
        branches: request.branches.clone(),
        options: push::options(request)?,
    };
    Ok(Mirror { dir, shown, request: asked })
}

/// One round. Returns the exit code.
fn round(run: &Invocation, request: &Request, mirror: &Mirror) -> Result<u8, Failure> {
    let (mut code, mut reports) = (0, Vec::new());
    let place = Place { open: &run.outside(), interrupt: &run.interrupt.shared(), events: run };
    mirror.round(place, &Children { run, request }, &mut |followed| match followed {
        Followed::Removed(branch) => {
            reports.push(json!({"branch": branch.to_str_lossy(), "removed": true}));
            if !request.json && !request.quiet {
                console::out(text!("removed the record of '", branch, "', which is gone from the server"));
            }
        }
        Followed::Pushed(pushed) => reports.push(report(request, &pushed)),
        Followed::Failed(branch, error) => {
            Failure::from(error).print();
            console::error(text!("the base of '", branch, "' was not pushed"));
            code = 1;
        }
    })?;
    if request.json {
        print_document(Value::from(reports));
    }
    Ok(code)
}

fn report(request: &Request, pushed: &Pushed) -> Value {
    let Pushed { branch, tip, remote, sent } = pushed;
    let was_there = Sent { was_there: true, ..Sent::default() };
    if let Some(sent) = sent.as_ref().filter(|_| !request.json) {
        push::report(request, remote, *tip, sent);
    }
    let base = push::described(*tip, sent.as_ref().unwrap_or(&was_there));
    json!({"branch": branch.to_str_lossy(), "base": base})
}

/// Clones and fetches by commands of this program.
struct Children<'a> {
    run: &'a Invocation,
    request: &'a Request,
}

impl mirror::Source for Children<'_> {
    type Error = Failure;

    fn clone(&self, url: &BStr, dir: &Path, settings: &[BString]) -> Result<(), Failure> {
        let mut sapwood = reexec::as_sapwood(self.run);
        sapwood.args(["clone", "--bare", "--no-tags", "--single-branch"]);
        settings.iter().for_each(|setting| {
            sapwood.arg("-c").arg(os_str(setting));
        });
        sapwood.args(self.voice()).arg("--").arg(os_str(url)).arg(dir);
        self.ended(sapwood)
    }

    fn fetch(&self, dir: &Path, refspecs: &[BString]) -> Result<(), Failure> {
        let mut sapwood = reexec::as_sapwood(self.run);
        sapwood.env("GIT_DIR", dir).args(["fetch", "--no-tags", "--prune", "--no-write-fetch-head"]);
        sapwood.args(self.voice()).arg("origin");
        sapwood.args(refspecs.iter().map(|refspec| os_str(refspec)));
        self.ended(sapwood)
    }
}

impl Children<'_> {
    fn voice(&self) -> Option<&'static str> {
        match (self.request.quiet || self.request.json, self.request.progress) {
            (true, _) => Some("--quiet"),
            (false, Some(true)) => Some("--progress"),
            (false, Some(false)) => Some("--no-progress"),
            (false, None) => None,
        }
    }

    fn ended(&self, command: Command) -> Result<(), Failure> {
        match reexec::run(self.run, command)? {
            0 => Ok(()),
            code => Err(Failure::Reported(code)),
        }
    }
}
