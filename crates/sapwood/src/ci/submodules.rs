//! The submodules of a checkout.

use std::path::Path;

use bstr::{BString, ByteSlice as _};
use repo::keys;
use sys::{FileType, by_path};

use super::{
    Program, Step,
    checkout::Submodules,
    cleanup, directory,
    directory::cannot,
    settings,
    steps::{Job, words},
    worktree,
};

impl<P: Program> Job<'_, P> {
    /// Checks out submodules. One that a killed job has left without a commit stops Git, so those
    /// of a directory that is used again are made anew if they cannot be updated.
    pub(super) fn check_out_submodules(&self, reused: bool) -> Result<(), P::Error> {
        let request = &self.plan.request;
        let wanted = request.files.submodules;
        if wanted == Submodules::None {
            return Ok(());
        }
        let removes = request.clean.removes();
        if !(reused && removes && self.update_again(&request.dir, wanted)?) {
            if reused && removes {
                self.git(&["submodule", "deinit", "-q", "--force", "--all"])?;
                directory::remove_submodules(&request.dir)?;
            }
            self.git_of(self.update(wanted))?;
        }
        // The settings of a user stay.
        let git_dirs = if reused && !removes { Vec::new() } else { cleanup::git_dirs(&request.dir)? };
        for git_dir in git_dirs.iter().skip(1) {
            self.set(&request.dir, &git_dir.join("config"), keys::gc::AUTO.name(), "0".into())?;
        }
        Ok(())
    }

    /// Checks out the submodules of the worktree `dir` where repositories of an earlier job may be.
    /// Each gets the address that `.gitmodules` gives it before it is used: not the job's, and not
    /// that of another commit. Returns false if Git fails.
    fn update_again(&self, dir: &Path, wanted: Submodules) -> Result<bool, P::Error> {
        let succeeds = |args: &[BString]| -> Result<bool, P::Error> {
            Ok(self.program.run(Step { dir, ..self.step(args) })? == 0)
        };
        if !succeeds(&words(&["submodule", "-q", "init"]))? {
            return Ok(false);
        }
        let question = words(&["rev-parse", "--absolute-git-dir"]);
        let Some(git_dir) = self.program.read(Step { dir, ..self.step(&question) })? else {
            return Ok(false);
        };
        let git_dir = Path::new(sys::os_str(git_dir.trim_end().as_bstr()));
        for (key, url) in settings::read(&git_dir.join("config"))? {
            let name = key.strip_prefix(b"submodule.").and_then(|rest| rest.strip_suffix(b".url"));
            let (Some(name), Some(url)) = (name, url) else { continue };
            let config = git_dir.join("modules").join(sys::os_str(name.as_bstr())).join("config");
            let stat = by_path::stat(&config).map_err(cannot("examine", &config))?;
            if stat.is_some_and(|stat| stat.file_type == FileType::File) {
                self.set(dir, &config, keys::remote::URL.of("origin").name(), url)?;
            }
        }
        if !succeeds(&self.update(Submodules::Direct))? {
            return Ok(false);
        }
        if wanted != Submodules::Recursive {
            return Ok(true);
        }
        let list = words(&["ls-files", "--stage", "-z"]);
        let Some(list) = self.program.read(Step { dir, ..self.step(&list) })? else { return Ok(false) };
        for path in worktree::gitlinks(&list, 0) {
            let Some(inner) = worktree::submodule(dir, path) else { return Ok(false) };
            let is_there = matches!(by_path::stat(&inner.join(".git")), Ok(Some(_)));
            if is_there && !self.update_again(&inner, wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the command that checks out submodules.
    fn update(&self, wanted: Submodules) -> Vec<BString> {
        let request = &self.plan.request;
        let mut args = words(&["submodule", "update", "--init"]);
        if request.clean.removes() {
            args.push("--force".into());
        }
        if request.history.depth > 0 {
            args.push(format!("--depth={}", request.history.depth).into());
        }
        if wanted == Submodules::Recursive {
            args.push("--recursive".into());
        }
        args
    }

    fn set(&self, dir: &Path, config: &Path, name: &str, value: BString) -> Result<(), P::Error> {
        let file = config.as_os_str().as_encoded_bytes().into();
        let args = vec!["config".into(), "--file".into(), file, "--replace-all".into(), name.into(), value];
        let code = self.program.run(Step { dir, ..self.step(&args) })?;
        self.ended(&args, code)
    }
}
