/** An API key or invitation link that is shown only once. */

import { Copy } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Input } from '../components/ui/Input';
import { copyText } from '../shared/copyText';

interface Props {
  hint: string;
  label: string;
  secret: string;
  /** A command that uses it. */
  example?: string;
  onDone: () => void;
}

export function OneTimeSecret({ hint, label, secret, example, onDone }: Props) {
  return (
    <div className="grid min-w-0 grid-cols-[minmax(0,1fr)] gap-3">
      <p>{hint}</p>
      <div className="flex flex-wrap items-center gap-2">
        <Input
          className="min-w-48 flex-1 font-mono"
          readOnly
          value={secret}
          aria-label={label}
          onFocus={(event) => event.target.select()}
        />
        <CopyButton text={secret} label={t('settings.keys.copy')} />
        <Button size="md" onClick={onDone}>
          {t('common.done')}
        </Button>
      </div>
      {example !== undefined && (
        <div className="grid gap-2">
          <pre tabIndex={0} className="overflow-x-auto rounded-md border border-border bg-sidebar p-3 text-xs">
            {example}
          </pre>
          <div>
            <CopyButton text={example} label={t('settings.keys.copyExample')} />
          </div>
        </div>
      )}
    </div>
  );
}

function CopyButton({ text, label }: { text: string; label: string }) {
  return (
    <Button size="md" icon={Copy} onClick={() => void copyText(text)}>
      {label}
    </Button>
  );
}
