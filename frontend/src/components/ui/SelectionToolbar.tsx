/** What can be done with what is selected, over the list. */

import { X } from 'lucide-react';
import type { CSSProperties, ReactNode } from 'react';
import { t } from '../../shared/i18n';
import { Button } from './Button';
import { cn } from './cn';

interface Props {
  count: number;
  /** Instead of the number: how far an action is. */
  progress?: string | undefined;
  onClear: () => void;
  className?: string;
  style?: CSSProperties;
  children: ReactNode;
}

export function SelectionToolbar({ count, progress, onClear, className, style, children }: Props) {
  return (
    <div
      role="toolbar"
      aria-label={t('common.selection.title')}
      style={style}
      className={cn(
        'z-20 flex w-max max-w-[calc(100%-1rem)] flex-wrap items-center gap-1 rounded-lg border border-border bg-popover p-1.5 shadow-lg',
        'max-sm:fixed! max-sm:inset-x-2! max-sm:bottom-17! max-sm:w-auto max-sm:max-w-none! max-sm:translate-x-0!',
        className,
      )}>
      <span role="status" className="px-2 font-semibold whitespace-nowrap">
        {progress ?? t('common.selection.count', { count })}
      </span>
      {children}
      <Button kind="quiet" icon={X} label={t('common.selection.clear')} onClick={onClear} />
    </div>
  );
}
