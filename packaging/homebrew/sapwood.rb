# A Homebrew formula for Linux. It is as written: nobody has run it yet (docs/releasing.md).
# A release fills in the address and the digest of the archive of the sources.
class Sapwood < Formula
  desc "Fast working-tree engine for Git repositories"
  homepage "https://example.org/sapwood"
  url "https://example.org/sapwood/releases/0.1.0/sapwood-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on "git"
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/cli")
    mkdir_p man1
    system bin/"sapwood", "help", "--man", man1
    generate_completions_from_executable(bin/"sapwood", "completion")
  end

  test do
    system "git", "init", "-q", "repository"
    assert_match "No commits yet", shell_output("#{bin}/sapwood -C repository status")
  end
end
