# The completion of dsv4 for PowerShell
Register-ArgumentCompleter -Native -CommandName dsv4 -ScriptBlock {
    param($word, $ast, $cursor)
    $words = @{
@WORDS@
    }
    $said = @($ast.CommandElements | ForEach-Object { "$_" })
    if ($word) { $said = @($said | Select-Object -SkipLast 1) }
    $command = if ($said.Count -gt 1) { $said[1] } else { '' }
    $known = $words["$command $($said[-1])"]
    if (-not $known) { $known = $words[$command] }
    $known | Where-Object { $_ -like "$word*" } | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_)
    }
}
