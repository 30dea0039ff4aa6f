/** Where there are no documents yet: files can be dropped anywhere on the page, which this says, or chosen. On phones and
 * tablets nothing can be dropped, so there it is one large button. */

import { Plus, Upload } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { t } from '../shared/i18n';
import { chooseFiles } from './DropTarget';

const MOUSE = 'max-sm:hidden pointer-coarse:hidden';
const TOUCH = 'sm:pointer-fine:hidden';

export function DropArea({ className }: { className?: string }) {
  return (
    <div
      className={cn(
        'flex flex-col items-center justify-center gap-4 rounded-xl border border-dashed border-input bg-sidebar px-6 py-12 text-center',
        className,
      )}>
      <span className="flex size-12 items-center justify-center rounded-xl bg-accent text-link">
        <Upload size={22} strokeWidth={1.75} aria-hidden="true" />
      </span>
      <div className="grid max-w-md gap-1">
        <h3 className={cn('text-lg font-semibold', MOUSE)}>{t('documents.dropHere')}</h3>
        <p className="text-muted-foreground">{t('documents.dropHint')}</p>
      </div>
      <Button kind="main" keys="U" onClick={chooseFiles} className={MOUSE}>
        {t('documents.chooseFiles')}
      </Button>
      <Button kind="main" size="lg" icon={Plus} onClick={chooseFiles} className={cn('w-full max-w-80', TOUCH)}>
        {t('stacks.addDocuments')}
      </Button>
    </div>
  );
}
