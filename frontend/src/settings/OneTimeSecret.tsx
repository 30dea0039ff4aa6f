/** A key, secret or invitation link that is shown only once. */

import { Copy, Plus } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
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

interface AddProps extends Pick<Props, 'hint' | 'label'> {
  /** The action, on the button and in the dialog. */
  title: string;
  form: (onMade: (made: Pick<Props, 'secret' | 'example'>) => void, onClose: () => void) => ReactNode;
}

/** A button with a form that makes a secret, which is then shown once. */
export function AddSecret({ title, form, ...shown }: AddProps) {
  const [isOpen, setOpen] = useState(false);
  const [made, setMade] = useState<Pick<Props, 'secret' | 'example'> | null>(null);
  const close = () => {
    setOpen(false);
    setMade(null);
  };
  return (
    <>
      <Button kind="main" icon={Plus} onClick={() => setOpen(true)}>
        {title}
      </Button>
      <Dialog title={title} open={isOpen} onClose={close} keepsOpen={made !== null}>
        {made === null ? form(setMade, close) : <OneTimeSecret {...shown} {...made} onDone={close} />}
      </Dialog>
    </>
  );
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
