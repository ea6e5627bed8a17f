# A Nix expression: `nix-build -E 'with import <nixpkgs> {}; callPackage packaging/nix/package.nix {}'`.
# It is as written: nobody has run it yet (docs/releasing.md).
{ lib, rustPlatform, installShellFiles, git }:

rustPlatform.buildRustPackage {
  pname = "sapwood";
  version = "0.1.0";
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [ "-p" "sapwood-cli" "-p" "sapwood-mountd" ];
  # The tests need mounts, servers and Git 2.55.
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];
  nativeInstallCheckInputs = [ git ];
  postInstall = ''
    mkdir -p $out/lib/sapwood
    mv $out/bin/sapwood-mountd $out/lib/sapwood/
    $out/bin/sapwood help --man man1
    installManPage man1/*.1
    for shell in bash zsh fish; do $out/bin/sapwood completion $shell >sapwood.$shell; done
    installShellCompletion sapwood.bash sapwood.zsh sapwood.fish
  '';
  doInstallCheck = true;
  installCheckPhase = ''
    git init -q repository
    $out/bin/sapwood -C repository status
  '';
  meta = {
    description = "Fast working-tree engine for Git repositories";
    license = with lib.licenses; [ mit asl20 ];
    platforms = lib.platforms.linux;
    mainProgram = "sapwood";
  };
}
